"""`regard look`: what a model writes for a text, and where it looked while it wrote."""

from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin
from regard.views.kinds import command_line_kinds

_EXAMPLES = """\b
Examples:
  regard look "I love you"
  regard look "I love you" --model en-zh-rnn --view flow
  regard look "I love you" --out page.html --open
  regard look "The capital of France is" --model ./gpt2 --layer 5 --head 1
  regard look cat.png --model ./vit-base-patch16-224
  regard look --file book.txt --model ./Llama-3.2-1B --out book.html
  regard look "I love you" --out love.trace && regard look love.trace --query 爱"""


@click.command(epilog=_EXAMPLES)
@click.argument("text", metavar="[TEXT|PICTURE|TRACE]", required=False)
@options.model
@options.file("--file", "Read the whole text of this file, UTF-8; - is stdin.")
@options.file("--trace", "Draw this saved trace; no model runs.")
@click.option(
    "--view",
    type=click.Choice(command_line_kinds()),
    help="The kind of picture. [heatmap; of pictures, overlay]",
)
@click.option(
    "--layer",
    metavar="N|SITE",
    help="Its number among the cross maps, or among all if none is; or its name.",
)
@click.option("--head", metavar="N", type=click.IntRange(0), help="One head instead of their mean.")
@click.option(
    "--query", metavar="TOKEN|N", help="What this token looked at; a number counts rows from 0."
)
@click.option(
    "--beam",
    metavar="N",
    type=click.IntRange(1, 512),
    help="Hypotheses side by side. [model's own]",
)
@click.option(
    "--new",
    metavar="N",
    type=click.IntRange(0),
    help="Tokens that a model goes on for after the text. [40; of --file, 0]",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="Read the first so many tokens only."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@options.out
@options.language
@options.as_json
@options.seed
@options.device
@options.quiet
def look(**asked: Any) -> None:
    """Show where a model looks while it reads and writes.

    TEXT is read by a model: a translator's map is that of its translation, what was written down
    the side and the source along the top; other models show how the text, and what they write
    after it, looks back. --model is any model of PyTorch's world: a shipped one, a folder or a hub
    name of Hugging Face, causal, masked, encoder-decoder, a classifier, or one that sees, for which
    PICTURE is an image file. - is stdin. TRACE is a file that --out wrote or save_trace.

    Without --out the terminal shows it. With --out a page (.html), a figure (.png, .svg, .pdf), the
    data (.json) or the trace (.trace, .safetensors) is written. Of a long text a page holds cells,
    and exactly its beginning, its end and what --query looked at.
    """
    begin("look", **asked)
