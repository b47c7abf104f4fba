"""`regard diagnose`: what is wrong with a model's attention, in sentences with numbers."""

from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard diagnose en-zh-transformer "I love you" "Where is the station?"
  regard diagnose ./my-model --file texts.txt --out report.html
  regard diagnose ./my-model --file texts.txt --fail-on warning   # in CI
  regard diagnose love.trace --expect causal --lang zh"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", metavar="MODEL|TRACE", shell_complete=options.model_names)
@click.argument("texts", metavar="[TEXT|TRACE]...", nargs=-1)
@options.file("--file", "Take the lines of this file, UTF-8; - is stdin.")
@click.option("--limit", type=click.IntRange(1), help="Take the first so many texts only.")
@click.option(
    "--deep",
    is_flag=True,
    help="Also run the model on changed texts: does attention explain what it says?",
)
@click.option(
    "--expect",
    type=click.Choice(("causal", "hard", "partial")),
    multiple=True,
    help="What attention is meant to be, where the model does not declare it.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Tell every finding, not the first of each."
)
@click.option(
    "--short", is_flag=True, help="Three sentences at most, the most serious ones, and no more."
)
@click.option(
    "--fail-on",
    type=click.Choice(("warning", "bug")),
    help="Exit with code 1 if something as serious is found.",
)
@options.out
@options.language
@options.as_json
@options.device
@options.quiet
def diagnose(**asked: Any) -> None:
    """Say what is wrong with a model's attention, and what deserves to be known of it.

    MODEL reads each TEXT, or each line of --file, or of stdin (-); a translator writes its
    translation. It is a shipped name, a folder or a hub name; or give saved traces instead.

    A bug is a mistake in masks or numbers, a warning most likely a fault, an observation common in
    healthy models. Each has its number and limit, what it usually means and what to try. --expect
    causal says that no token should see later ones, hard that one token at a time is meant, partial
    that rows that sum to less than one are. --out writes a page (.html) with the pictures.
    """
    begin("diagnose", **asked)
