"""`regard models`: what ships, what is cached, what a folder holds."""

from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard models
  regard models ~/checkpoints
  regard models --json"""


@click.command(epilog=_EXAMPLES)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@options.language
@options.as_json
def models(**asked: Any) -> None:
    """List the models that are here, or in a folder.

    Without FOLDER: those that came with regard, and those of Hugging Face that are in the cache of
    this machine. With FOLDER: the model in it, or the models in its folders. Nothing is loaded and
    nothing is downloaded. "regard" says that our own classes load a model, "transformers" that
    regard look takes it by transformers' classes.
    """
    begin("models", **asked)
