"""The options that several commands share: of one name, they mean the same everywhere."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from regard.cli.language import LANGUAGES

ZOO = Path(__file__).parents[1] / "zoo"
Command = TypeVar("Command", bound=Callable[..., Any])
_SEEDS = click.IntRange(0, (1 << 32) - 1)


def _language() -> str:
    return "zh" if os.environ.get("LANG", "").startswith("zh") else "en"


def model_names(_: object, __: object, incomplete: str) -> list[CompletionItem]:
    """For the shell: the shipped models that begin so, then folders."""
    found = ZOO.iterdir() if ZOO.is_dir() else ()
    names = sorted(each.name for each in found if (each / "config.json").is_file())
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*items, CompletionItem(incomplete, type="dir")]


model = click.option(
    "--model",
    metavar="PATH|NAME",
    shell_complete=model_names,
    help="A shipped name, a folder, or a name on the hub. [a shipped one]",
)


def file(name: str, said: str) -> Callable[[Command], Command]:
    """An option that names a file."""
    return click.option(name, metavar="FILE", type=click.Path(path_type=Path), help=said)


out = file("--out", "Write to this file instead of the terminal.")

language = click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    envvar="REGARD_LANG",
    default=_language,
    show_default="REGARD_LANG, else zh if LANG starts with zh, else en",
    help="Language of the output.",
)

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, the same in every language."
)

seed = click.option("--seed", metavar="N", type=_SEEDS, help="Draw the same random numbers again.")

device = click.option(
    "--device",
    metavar="DEVICE",
    help="Where to compute: cpu, cuda, cuda:1, mps. [cuda if there is one, else cpu]",
)

quiet = click.option("--quiet", is_flag=True, help="No progress and no notes; errors are said.")
