"""The work of `regard explain`."""

from typing import Any

import click
from rich.console import Console

from regard.cli.output import as_text
from regard.cli.work.inputs import text_of
from regard.cli.work.lesson import Request, prepare, record
from regard.cli.work.steps import show


def run(text: str | None, seed: int | None, lang: str, as_json: bool, **asked: Any) -> None:
    """Take the text through the mechanism and show the steps."""
    request = Request(text=text_of(text), seed=seed or 0, **asked)
    if request.vectors is not None and request.dim is not None:
        raise click.UsageError("--dim is for random vectors; those of --vectors have their own")
    lesson = prepare(request)
    if as_json:
        click.echo(as_text(record(lesson), indent=2))
    else:
        show(lesson, lang, Console(highlight=False))
