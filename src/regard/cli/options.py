"""The click options that several commands share: one name means the same in every command."""

import os
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from regard.text import LANGUAGES

ZOO = Path(__file__).parents[1] / "zoo"
Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Callable[..., None]], Callable[..., None]]
_SEEDS = click.IntRange(0, (1 << 32) - 1)


def _system_language() -> str:
    """zh if the system's language is Chinese, else en."""
    return "zh" if os.environ.get("LANG", "").startswith("zh") else "en"


def complete_model_name(_: object, __: object, incomplete: str) -> list[CompletionItem]:
    """For the shell: the shipped models whose names begin so, then folders."""
    # not regard.models.shipped_models: that would import torch at every press of TAB
    folders = ZOO.iterdir() if ZOO.is_dir() else ()
    names = sorted(folder.name for folder in folders if (folder / "config.json").is_file())
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*items, CompletionItem(incomplete, type="dir")]


def file(name: str, help_text: str) -> Callable[[Command], Command]:
    """An option that names a file."""
    return click.option(name, metavar="FILE", type=click.Path(path_type=Path), help=help_text)


def apply_options(options: Sequence[Option]) -> Option:
    """One decorator for several options, which the help lists in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


model = click.option(
    "--model",
    metavar="PATH|NAME",
    shell_complete=complete_model_name,
    help="A shipped model, a folder, or a name on the Hugging Face hub. [a shipped model]",
)

out = file("--out", "Write to this file instead of the terminal.")

texts_file = file("--file", "Read texts from the lines of this file, in UTF-8; - is stdin.")

beam = click.option(
    "--beam",
    metavar="N",
    type=click.IntRange(1, 512),
    help="Number of beams in beam search. [the model's own]",
)

limit_texts = click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="Use only the first N texts."
)

language = click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    envvar="REGARD_LANG",
    default=_system_language,
    show_default="REGARD_LANG, else zh if LANG starts with zh, else en",
    help="Language of the output.",
)

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, the same in every language."
)

seed = click.option(
    "--seed", metavar="N", type=_SEEDS, help="Seed of the random numbers, to repeat a result."
)

device = click.option(
    "--device",
    metavar="DEVICE",
    help="Where to compute: cpu, cuda, cuda:1, mps. [cuda if there is one, else cpu]",
)

quiet = click.option(
    "--quiet", is_flag=True, help="Show no progress and no notes; errors are still shown."
)
