"""`regard explain`: the three steps of attention on a text, number by number."""

from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard explain "我 爱 中国" --query 爱
  regard explain "the cat saw the dog" --query 4 --mask causal
  echo 我爱中国 | regard explain - --mechanism additive --lang zh"""


@click.command(epilog=_EXAMPLES)
@click.argument("text", required=False)
@click.option("--query", metavar="WORD|POSITION", help="Show this word only; see above.")
@click.option(
    "--mechanism",
    metavar="NAME",
    default="scaled-dot",
    show_default=True,
    help="A name of `regard mechanisms`.",
)
@click.option("--mask", type=click.Choice(["causal"]), help="causal: no word sees a later one.")
@options.file(
    "--vectors",
    "Word vectors in word2vec's text format, UTF-8: a first line `count dim` or none, then "
    "`word v1 v2 ...` on each line.",
)
@click.option(
    "--dim",
    metavar="N",
    type=click.IntRange(1, 1 << 16),
    show_default="4",
    help="Numbers in each random vector.",
)
@options.seed
@options.language
@options.as_json
def explain(**asked: Any) -> None:
    """Show the three steps of attention on a text.

    The words of TEXT are what stands between white space; Chinese text without white space is
    taken character by character. - is stdin. Each word attends to all words, itself included: its
    vector is query, key and value. Without --vectors the vectors are random, the same for the same
    --seed (0 if none is given), and so are the parameters of a mechanism that has some.

    --query is a word of the text (the first, if it occurs again) or a position counted from 1.
    """
    begin("explain", **asked)
