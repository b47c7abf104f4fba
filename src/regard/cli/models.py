"""`regard models`: the models that are shipped, cached, or in a folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.terminal import make_console

_EXAMPLES = """\b
Examples:
  regard models
  regard models ~/checkpoints
  regard models --json"""


@dataclass(frozen=True)
class ModelsOptions:
    """The options of `regard models`."""

    folder: Path | None
    lang: str
    as_json: bool


@command(epilog=_EXAMPLES)
@click.argument("folder", required=False, type=options.path)
@options.language
@options.as_json
def models(**arguments: Any) -> None:
    """List the models on this machine, or in a folder.

    Without FOLDER: the models shipped with regard, and those of the Hugging Face hub in this
    machine's cache. With FOLDER: the model in it, or the models in its folders. Nothing is loaded
    or downloaded. "Loaded by" is regard if regard's own classes load the model, and transformers if
    the classes of that package do.
    """
    _print_models(ModelsOptions(**arguments))


def _print_models(options: ModelsOptions) -> None:
    """Print the models of the folder or of this machine, as tables or JSON."""
    from regard.cli.printing.models import list_models
    from regard.loading import describe_model, describe_models_here, find_models

    if options.folder is not None:
        groups = {"": [describe_model(path) for path in find_models(options.folder.expanduser())]}
    else:
        groups = describe_models_here()
    if options.as_json:
        records = {name: [model.to_json() for model in group] for name, group in groups.items()}
        print_json(records.get("", records), indent=2)
        return
    console = make_console()
    for part in list_models(groups, options.lang):
        console.print(part)
