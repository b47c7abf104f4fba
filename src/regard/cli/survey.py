"""`regard survey`: what every head of a model does over a whole corpus."""

from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard survey en-zh-transformer pairs.tsv
  regard survey ./minilm sentences.txt --out heads.csv --out heads.html
  torchrun --nproc-per-node 2 -m regard survey ./minilm sentences.txt --out heads.parquet"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", metavar="MODEL", shell_complete=options.model_names)
@click.argument("corpus", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "outs",
    metavar="FILE",
    type=click.Path(path_type=Path),
    multiple=True,
    help=".csv, .parquet, .json or .html; may be given several times.",
)
@click.option("--limit", type=click.IntRange(1), help="Take the first so many texts only.")
@click.option("--paragraphs", is_flag=True, help="Texts are parted by empty lines, not by lines.")
@click.option(
    "--batch",
    metavar="TOKENS",
    type=click.IntRange(1),
    default=2048,
    show_default=True,
    help="How many tokens are run together.",
)
@click.option(
    "--longest",
    metavar="TOKENS",
    type=click.IntRange(1),
    help="Cut texts after so many tokens. [where the model ends]",
)
@options.language
@options.as_json
@options.device
@options.quiet
def survey(**asked: Any) -> None:
    """Survey every head of a model over a CORPUS.

    Each line of CORPUS is a text; of .tsv the first column, of .jsonl the key "text". A model that
    translates takes pairs: .tsv (source, tab, target), .jsonl with "source" and "target", or lines
    of source ||| target, and is made to write the target.

    A row of the table is a head: the mean of each measure over the texts, and its spread, the
    standard deviation over texts. With --out the survey can be interrupted: the same command goes
    on. Under torchrun each process takes its share.
    """
    begin("survey", **asked)
