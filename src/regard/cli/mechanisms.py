"""`regard mechanisms`: the catalog as a table, and everything about one of its entries."""

from dataclasses import dataclass
from typing import Any

import click

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.terminal import make_console

_EXAMPLES = """\b
Examples:
  regard mechanisms
  regard mechanisms bahdanau
  regard mechanisms additive --json"""


@dataclass(frozen=True)
class MechanismsOptions:
    """The options of `regard mechanisms`."""

    name: str | None
    lang: str
    as_json: bool


@command(epilog=_EXAMPLES)
@click.argument("name", required=False)
@options.language
@options.as_json
def mechanisms(**arguments: Any) -> None:
    """List the attention mechanisms, or describe one.

    Without NAME, lists every mechanism by family: its formula, its paper, and its time for n
    queries and m keys of width d. NAME is the name or an alias of one mechanism.
    """
    _print_mechanisms(MechanismsOptions(**arguments))


def _print_mechanisms(options: MechanismsOptions) -> None:
    """Print all entries of the catalog, or one, as text or JSON."""
    from regard.attention import catalog
    from regard.cli.printing.catalog import describe_entry, entry_record, list_entries

    if options.as_json:
        if options.name is None:
            print_json([entry_record(entry) for entry in catalog.values()], indent=2)
        else:
            print_json(entry_record(catalog[options.name]), indent=2)
        return
    console = make_console()
    if options.name is None:
        parts = list_entries(list(catalog.values()), options.lang, console.width)
    else:
        parts = describe_entry(catalog[options.name], options.lang)
    for part in parts:
        console.print(part)
