"""`regard train`: trains the model of a recipe, with its progress in the terminal."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.output import INTERRUPTED, to_json_text
from regard.documents import parse_json
from regard.errors import InputError
from regard.terminal import make_console, print_text
from regard.text import say

if TYPE_CHECKING:
    from regard.training.events import Ended

_EXAMPLES = """\b
Examples:
  regard train recipes/tiny/recipe.toml
  regard train recipe.toml --set plan.steps=2000 --set plan.rate=5e-4
  torchrun --nproc-per-node 2 -m regard train recipe.toml"""


@dataclass(frozen=True)
class TrainOptions:
    """The options of `regard train`; `changes` are texts KEY=VALUE."""

    recipe: Path
    changes: tuple[str, ...]
    tensorboard: bool
    lang: str
    as_json: bool
    seed: int | None
    device: str | None
    quiet: bool


@command(epilog=_EXAMPLES)
@click.argument("recipe", type=options.input_file)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the recipe; may be given several times.",
)
@click.option("--tensorboard", is_flag=True, help="Also write TensorBoard logs to the run folder.")
@options.language
@options.as_json
@options.seed
@options.device
@options.quiet
def train(**arguments: Any) -> None:
    """Train the model of a recipe, or continue its training.

    RECIPE is a TOML file; the same command continues an interrupted training. Ctrl-C saves a
    checkpoint and ends. Every event is written as a line to log.jsonl in the run folder.
    """
    _train(TrainOptions(**arguments))


def _train(options: TrainOptions) -> None:
    """Train the model of the recipe with its logs and progress bar, and print how it ended."""
    from regard.cli.printing.training import TrainingBar
    from regard.loading import find_device
    from regard.training import logs
    from regard.training.recipe_file import load_recipe
    from regard.training.train import train

    device = None if options.device is None else str(find_device(options.device))
    changes = dict(map(_parse_change, options.changes))
    if options.seed is not None:
        changes["seed"] = options.seed
    recipe = load_recipe(options.recipe, **changes)
    callbacks: list[Any] = [logs.JsonLines(recipe.folder / "log.jsonl")]
    if options.tensorboard:
        callbacks.append(logs.TensorBoard(recipe.folder / "tensorboard"))
    if not options.quiet:
        callbacks.append(TrainingBar(make_console(stderr=True)))
    ended = train(recipe, callbacks=callbacks, device=device)
    print_text(_format_end(ended, options))
    if ended.reason == "interrupted":
        click.get_current_context().exit(INTERRUPTED)


def _parse_change(text: str) -> tuple[str, Any]:
    """The key and the value of a change; a value that is no JSON is a string."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set expected KEY=VALUE, such as plan.steps=2000, got {text!r}")
    try:
        return key, parse_json(value, "the value")
    except InputError:
        return key, value


def _format_end(ended: "Ended", options: TrainOptions) -> str:
    """How the training ended and where the model is, as text or as JSON."""
    path = None if ended.path is None else str(ended.path)
    if options.as_json:
        return to_json_text(asdict(ended) | {"path": path})
    lines = [say(f"train.end.{ended.reason}", options.lang, step=ended.step)]
    if path is not None:
        lines.append(say("train.model", options.lang, path=path))
    return "\n".join(lines)
