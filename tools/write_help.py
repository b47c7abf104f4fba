"""Write what `--help` says into the documents that show it.

Run: python tools/write_help.py docs/commands.md docs/commands.zh.md

A block of text that begins with "Usage: regard NAME" becomes the help of that command.
"""

import re
import sys
from pathlib import Path

import click

from regard.cli import main

_BLOCK = re.compile(r"```text\nUsage: regard( [a-z]+)? .*?\n```", re.DOTALL)
_WIDTH = 78  # what is left of eighty columns


def help_of(name: str = "") -> str:
    """What a command says of itself, or without a name all of them together."""
    group = click.Context(main, info_name="regard", terminal_width=_WIDTH, **main.context_settings)
    if not name:
        return main.get_help(group) + "\n"
    command = main.get_command(group, name)
    if command is None:
        sys.exit(f"there is no command {name}")
    context = click.Context(command, parent=group, info_name=name, terminal_width=_WIDTH)
    return command.get_help(context) + "\n"


def rewritten(text: str) -> str:
    """The document with every block as it is now."""
    return _BLOCK.sub(lambda found: f"```text\n{help_of((found[1] or '').strip())}```", text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(rewritten(Path(name).read_text("utf-8")), "utf-8")
