"""`regard explain`: the three steps of attention on a text, number by number."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from regard.cli import options
from regard.cli.lesson import DIM, MASKS, Request, prepare, record
from regard.cli.steps import show

_EXAMPLES = """\b
Examples:
  regard explain "我 爱 中国" --query 爱
  regard explain "the cat saw the dog" --query 4 --mask causal
  regard explain 我爱中国 --mechanism additive --lang zh"""


@click.command(epilog=_EXAMPLES)
@click.argument("text")
@click.option("--query", metavar="WORD|POSITION", help="Show this word only; see above.")
@click.option(
    "--mechanism", default="scaled-dot", show_default=True, help="A name of `regard mechanisms`."
)
@click.option("--mask", type=click.Choice(list(MASKS)), help="causal: no word sees a later one.")
@click.option(
    "--vectors",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Word vectors in word2vec's text format, UTF-8: a first line `count dim` or none, then "
    "`word v1 v2 ...` on each line.",
)
@click.option(
    "--dim",
    type=click.IntRange(1, 1 << 16),
    show_default=str(DIM),
    help="Numbers in each random vector.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 32) - 1),
    default=0,
    show_default=True,
    help="Seed of the random vectors, and of the mechanism's parameters if it has any.",
)
@options.language
@options.as_json
def explain(lang: str, as_json: bool, **asked: Any) -> None:
    """Show the three steps of attention on a text.

    The words of TEXT are what stands between white space; Chinese text without white space is
    taken character by character. Each word attends to all words, itself included: its vector is
    query, key and value. Without --vectors the vectors are random, the same for the same seed.

    --query is a word of the text (the first, if it occurs again) or a position counted from 1.
    """
    request = Request(**asked)
    if request.vectors is not None and request.dim is not None:
        raise click.UsageError("--dim is for random vectors; those of --vectors have their own")
    lesson = prepare(request)
    if as_json:
        click.echo(json.dumps(record(lesson), ensure_ascii=False, indent=2))
    else:
        show(lesson, lang, Console(highlight=False))
