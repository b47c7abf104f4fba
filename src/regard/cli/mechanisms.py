"""`regard mechanisms`: the catalog as a table, and all that there is to know of one entry."""

from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import begin

_EXAMPLES = """\b
Examples:
  regard mechanisms
  regard mechanisms bahdanau
  regard mechanisms additive --json"""


@click.command(epilog=_EXAMPLES)
@click.argument("name", required=False)
@options.language
@options.as_json
def mechanisms(**asked: Any) -> None:
    """List the mechanisms, or tell all about one.

    Without NAME, every mechanism by family: its formula, its paper and its time for n queries and
    m keys of width d. With NAME, or an alias, all about that one.
    """
    begin("mechanisms", **asked)
