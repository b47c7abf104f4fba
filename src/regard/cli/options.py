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


def _check_is_model(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """The name of a model; a text or a file in its place is refused with a call that is right."""
    if value is None or context.resilient_parsing:
        return value
    if not value.strip():
        raise click.UsageError(f"the name is empty; {_first_example(context.command)}", context)
    from regard.models.checkpoints.locations import is_sentence, shorten
    from regard.storage import is_trace_file

    place, takes_files = Path(value), "FILE" in (parameter.metavar or "")
    if _exists(place):
        is_trace = is_trace_file(place) or place.suffix == ".trace"  # a damaged one too
        is_model = takes_files or place.is_dir() or is_trace
        problem = None if is_model else f"{value} is a file and no model"
    else:
        problem = f"{shorten(value)!r} is a text and no model" if is_sentence(value) else None
    if problem is not None:
        raise click.UsageError(f"{problem}; {_first_example(context.command)}", context)
    return value


def _exists(path: Path) -> bool:
    """True if there is a file or a folder of this path."""
    try:
        return path.exists()
    except (OSError, ValueError):  # longer than a path may be, as texts are, or not permitted
        return False


def _first_example(command: click.Command) -> str:
    """The first example on a command's help page, for messages."""
    lines = (line.strip() for line in (command.epilog or "").splitlines())
    return next(f"for example: {line}" for line in lines if line.startswith("regard "))


def model_argument(name: str, metavar: str) -> Callable[[Command], Command]:
    """The argument that names a model."""
    return click.argument(
        name, metavar=metavar, shell_complete=complete_model_name, callback=_check_is_model
    )


class FilePath(click.Path):
    """The path of a file or folder; an empty one, which pathlib takes for ".", is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path of a command-line argument."""
        if value == "":
            self.fail("the name is empty; name a file", param, ctx)
        return super().convert(value, param, ctx)


path = FilePath(path_type=Path)
input_file = FilePath(path_type=Path, dir_okay=False)


def file(name: str, help_text: str) -> Callable[[Command], Command]:
    """An option that names a file."""
    return click.option(name, metavar="FILE", type=path, help=help_text)


def apply_options(options: Sequence[Option]) -> Option:
    """One decorator for several options, which the help lists in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


model = click.option(
    "--model",
    metavar="PATH|NAME",
    shell_complete=complete_model_name,
    callback=_check_is_model,
    help="A shipped model, a folder, or a name on the Hugging Face hub. [a shipped model]",
)

# of a command that no shipped model is the default of
named_model = click.option(
    "--model",
    metavar="PATH|NAME",
    shell_complete=complete_model_name,
    callback=_check_is_model,
    help="A shipped model, a folder, or a name on the Hugging Face hub.",
)

# the subjects are those of regard.tasks.models, which would take time to import here; a test
# compares them
subject = click.option(
    "--task",
    type=click.Choice(["sentiment", "topic"]),
    help="What a shipped classifier tells of the text. [sentiment]",
)

out = file("--out", "Write to this file instead of the terminal.")

texts_file = file("--file", "Read texts from the lines of this file, in UTF-8; - is stdin.")

beam = click.option(
    "--beam",
    metavar="N",
    type=click.IntRange(1, 512),
    help="Number of beams in beam search. [the model's own]",
)


def _read_grid(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """Rows and columns of patches, written as 14x14."""
    if value is None:
        return None
    rows, _, columns = value.lower().partition("x")
    if not all(side.isascii() and side.isdecimal() and int(side) for side in (rows, columns)):
        message = f"expected ROWSxCOLUMNS, such as 14x14, got {value!r}"
        raise click.BadParameter(message, context, parameter)
    return int(rows), int(columns)


grid = click.option(
    "--grid",
    metavar="ROWSxCOLUMNS",
    callback=_read_grid,
    help="The patches of the picture, for a model that does not tell them. [a square]",
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
