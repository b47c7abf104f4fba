"""`regard info`: a trace or a model in one glance."""

from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard info love.trace
  regard info en-zh-transformer
  regard info ./gpt2 --json"""


@click.command(epilog=_EXAMPLES)
@click.argument("file", metavar="FILE|NAME", shell_complete=options.model_names)
@options.language
@options.as_json
def info(**asked: Any) -> None:
    """Tell what a trace or a model is, in one glance.

    FILE is a trace that regard look --out or save_trace wrote, the folder of a model, or a file in
    it; NAME is a model that is shipped or cached. Of a trace: its tokens, its maps with their
    heads and sizes, what is kept of them, and what could not be seen. Of a model: its
    architecture, layers, heads, parameters, tokenizer, and who loads it.
    """
    begin("info", **asked)
