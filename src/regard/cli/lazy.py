"""A group of commands whose modules are imported only when one of them runs."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from regard.errors import UnknownNameError


class Lazy(NamedTuple):
    """Where a command lives, and the line that the group's help says of it."""

    module: str
    help: str


def begin(name: str, /, **asked: Any) -> None:
    """Do the work of a command, which is imported now: its help needs none of it."""
    with warnings.catch_warnings():
        if asked.get("quiet"):
            warnings.simplefilter("ignore")
        import_module(f"regard.cli.work.{name}").run(**asked)


class LazyGroup(click.Group):
    """A group that knows of each command its name, its module and one line of help."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they were given."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in self.lazy:
            return None
        command: click.Command = getattr(import_module(self.lazy[cmd_name].module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; an unknown one is told the nearest."""
        if args[0] not in self.lazy and not ctx.resilient_parsing:
            raise UnknownNameError("command", args[0], self.lazy)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands of the help page, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What the shell may go on with: commands, of which none is imported, and options."""
        commands = [
            CompletionItem(name, help=lazy.help)
            for name, lazy in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)
