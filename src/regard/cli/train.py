"""`regard train`: a recipe followed, with its progress in the terminal."""

from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard train recipes/tiny/recipe.toml
  regard train recipe.toml --set plan.steps=2000 --set plan.rate=5e-4
  torchrun --nproc-per-node 2 -m regard train recipe.toml"""


@click.command(epilog=_EXAMPLES)
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe."
)
@click.option("--tensorboard", is_flag=True, help="Write for TensorBoard into the run's folder.")
@options.language
@options.as_json
@options.seed
@options.device
@options.quiet
def train(**asked: Any) -> None:
    """Train the model of a recipe, or go on with it.

    RECIPE is a TOML file; the same command goes on where it was. Ctrl-C saves and ends. Every
    event is a line in the folder's log.jsonl.
    """
    begin("train", **asked)
