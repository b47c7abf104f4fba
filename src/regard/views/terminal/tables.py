"""Tables of tokens and weights in the terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from regard.views.terminal.ink import Ink

_SIDES = {"l": "left", "r": "right", "c": "center"}


def table_of(rows: Sequence[Sequence[str | Text]], ink: Ink, sides: str, longest: int) -> Table:
    """Rows without rules; a text longer than said is cut."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    for side in sides:
        table.add_column(justify=_SIDES[side], no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(_cell(each, ink, max(4, longest)) for each in row))
    return table


def _cell(each: str | Text, ink: Ink, longest: int) -> Text:
    return each if isinstance(each, Text) else Text(ink.cut(each, longest))
