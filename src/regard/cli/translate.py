"""`regard translate`: texts in one language to texts in another."""

from typing import Any

import click

from regard.cli.lazy import begin
from regard.cli.writing import shared, writing

_EXAMPLES = """\b
Examples:
  regard translate "I love you"
  regard translate --model ./opus-mt-zh-en --file news.txt --beam 5
  cat news.txt | regard translate --json > news.jsonl"""


@click.command(epilog=_EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@writing
@shared
def translate(**asked: Any) -> None:
    """Translate texts with a model.

    Each TEXT is translated, or each line of --file, or of stdin (-): a line each, an empty one for
    an empty one. --best prints several for each, the score before each: its log-probability over
    its tokens. --json prints an object for each text, on a line of its own.
    """
    begin("translate", **asked)
