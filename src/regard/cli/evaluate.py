"""`regard evaluate`: how good a model is, as numbers."""

from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard evaluate ./en-zh test.tsv --beam 5 --by-length
  regard evaluate ./en-zh test.tsv --gold alignments.tsv --peaks peaks.tsv --json
  regard evaluate ./en-zh zhen.src-tgt --gold zhen.gold --one-based --reverse"""
_LANGUAGES = ("zh", "13a", "char", "ja-mecab", "none")


@click.command(epilog=_EXAMPLES)
@click.argument("model", metavar="MODEL", shell_complete=options.model_names)
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--beam",
    metavar="N",
    type=click.IntRange(1, 512),
    help="Hypotheses side by side. [model's own]",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="Take the first so many lines only."
)
@click.option(
    "--language",
    type=click.Choice(_LANGUAGES),
    help="How sacrebleu splits the target into words. [guessed from the target]",
)
@click.option("--by-length", is_flag=True, help="Also chrF by the length of the source.")
@options.file("--gold", "Links by hand: alignment error rate of the model's attention.")
@options.file("--peaks", "Links of some words: how often the largest weight is right.")
@click.option("--one-based", is_flag=True, help="The links count words from 1.")
@click.option("--reverse", is_flag=True, help="DATA and links have the target first.")
@options.out
@options.language
@options.as_json
@options.device
@options.quiet
def evaluate(**asked: Any) -> None:
    """Score a model on held-out DATA.

    DATA has pairs: .tsv (source, tab, target), .jsonl, or lines of source ||| target. MODEL is a
    shipped name, a folder, or a name on the hub. For a model that continues texts, DATA is a text
    file, and the scores are loss and perplexity.

    A file of links has the words of both sides and the links i-j (sure) or ipj (possible), with
    tabs between; or the links alone, a line for each line of DATA. The model is made to write the
    reference, and each word of it is linked with the source word that was looked at most.
    """
    begin("evaluate", **asked)
