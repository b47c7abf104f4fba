"""`regard generate`: texts continued, shown while they are written."""

from typing import Any

import click

from regard.cli.lazy import begin
from regard.cli.writing import shared, writing

_EXAMPLES = """\b
Examples:
  regard generate "Once upon a time"
  regard generate "Lily saw" --sample --seed 7 --top-p 0.9
  regard generate --model ./stories15M --file prompts.txt --beam 4 --json"""


@click.command(epilog=_EXAMPLES)
@click.argument("prompts", metavar="[PROMPT]...", nargs=-1)
@writing
@click.option("--stop", multiple=True, help="End after this text; may be given several times.")
@shared
def generate(**asked: Any) -> None:
    """Continue texts with a model.

    Each PROMPT is continued, or each line of --file, or of stdin (-), one after the other. The text
    is shown while it is written, except with --beam, --best, --out and --json. --best prints
    several for each, the score before each: the log-probability over the new tokens. --json prints
    an object for each prompt, on a line of its own.
    """
    begin("generate", **asked)
