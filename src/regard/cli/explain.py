"""`regard explain`: the three steps of attention on a text, number by number."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from regard.cli import options
from regard.cli.inputs import errors_name_options, read_text
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.terminal import make_console

_EXAMPLES = """\b
Examples:
  regard explain "我 爱 中国" --query 爱
  regard explain "the cat saw the dog" --query 4 --mask causal
  echo 我爱中国 | regard explain - --mechanism additive --lang zh"""


@dataclass(frozen=True)
class ExplainOptions:
    """The options of `regard explain`."""

    text: str | None
    query: str | None
    mechanism: str
    mask: Literal["causal"] | None
    vectors: Path | None
    dim: int | None
    seed: int | None
    lang: str
    as_json: bool


@command(epilog=_EXAMPLES)
@click.argument("text", required=False)
@click.option("--query", metavar="WORD|POSITION", help="Explain this word only; see above.")
@click.option(
    "--mechanism",
    metavar="NAME",
    default="scaled-dot",
    show_default=True,
    help="A name that `regard mechanisms` lists.",
)
@click.option(
    "--mask", type=click.Choice(["causal"]), help="causal: no word attends to a later one."
)
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
    help="Dimension of the random vectors.",
)
@options.seed
@options.language
@options.as_json
def explain(**arguments: Any) -> None:
    """Show the three steps of attention on a text.

    The words of TEXT are separated by white space; Chinese text without white space is taken
    character by character. - is stdin. Each word attends to all words, itself included: its vector
    is query, key and value. Without --vectors the vectors are random, the same for the same --seed
    (0 if none is given), and so are the parameters of a mechanism that has some.

    --query is a word of the text (the first, if it occurs again) or a position counted from 1.
    """
    _explain(ExplainOptions(**arguments))


def _explain(options: ExplainOptions) -> None:
    """Compute the steps of attention on the text, and print them as tables or JSON."""
    from regard.cli.printing.explanation import print_explanation
    from regard.models.text_explanation import DEFAULT_DIM, explain_text

    text = read_text(options.text)
    if options.vectors is not None and options.dim is not None:
        raise click.UsageError("--dim is for random vectors; those of --vectors have their own")
    with errors_name_options({}, phrases={"query=": "--query "}):
        explanation = explain_text(
            text,
            options.query,
            options.mechanism,
            mask=options.mask,
            vectors=options.vectors,
            dim=options.dim or DEFAULT_DIM,
            seed=options.seed or 0,
        )
    if options.as_json:
        print_json(explanation.to_json(), indent=2)
    else:
        one_word = options.query is not None
        print_explanation(explanation, options.lang, make_console(), one_word=one_word)
