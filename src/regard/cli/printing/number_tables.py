"""Tables of numbers that fit the terminal, whatever its width and the width of the words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.bar import Bar
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

__all__ = [
    "NumberTable",
    "format_number",
    "table_of_first_columns",
    "table_with_bars",
    "tables_of_all_columns",
]

_GAP = 2  # terminal cells between columns
_BAR_WIDTH = 40
_HEADING_WIDTH = 8  # terminal cells of a heading over numbers; longer ones are cut


@dataclass(frozen=True)
class NumberTable:
    """Named rows of numbers, already written as text, under headings.

    `corner` is the heading of the names. `last` is the name and the numbers of a row of sums below.
    """

    corner: str
    names: Sequence[str]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    last: tuple[str, Sequence[str]] | None = None

    def column_width(self) -> int:
        """The terminal cells of the widest number or heading."""
        rows = self.rows if self.last is None else [*self.rows, self.last[1]]
        numbers = max(cell_len(cell) for row in rows for cell in row)
        return max(numbers, *(min(_HEADING_WIDTH, cell_len(title)) for title in self.headings))

    def columns_that_fit(self, width: int) -> int:
        """The number of columns that fit beside the names, at least one."""
        return max(1, (width - self.names_width(width)) // (self.column_width() + _GAP))

    def names_width(self, width: int) -> int:
        """The terminal cells that the names take: at most a third of the width."""
        corner = [self.corner] if self.last is None else [self.corner, self.last[0]]
        return min(max(cell_len(name) for name in [*corner, *self.names]), max(4, width // 3))


def format_number(value: float) -> str:
    """Three decimals, or an exponent if the number is very small or large; "0" is exactly zero.

    >>> format_number(0.5), format_number(2e-5), format_number(0.0)
    ('0.500', '2e-05', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.3f}" if 0.001 <= abs(value) < 10_000 else f"{value:.0e}"


def tables_of_all_columns(table: NumberTable, width: int) -> Iterator[Table]:
    """The whole table, cut between columns into tables that fit."""
    step = table.columns_that_fit(width)
    for start in range(0, len(table.headings), step):
        yield _rich_table(table, slice(start, start + step), width)


def table_of_first_columns(table: NumberTable, width: int) -> tuple[Table, int]:
    """The columns that fit, and the number of those that do not."""
    shown = table.columns_that_fit(width)
    return _rich_table(table, slice(shown), width), max(0, len(table.headings) - shown)


def table_with_bars(table: NumberTable, sizes: Sequence[float], width: int) -> Table:
    """The table with a bar after each row; a size of one is the whole bar."""
    numbers = len(table.headings) * (table.column_width() + _GAP)
    room = width - table.names_width(width) - numbers - _GAP
    bars = [Bar(1, 0, size, width=max(1, min(room, _BAR_WIDTH))) for size in sizes]
    return _rich_table(table, slice(None), width, bars if room > 0 else None)


def _rich_table(
    table: NumberTable, columns: slice, width: int, bars: Sequence[Bar] | None = None
) -> Table:
    """Some columns as a table of rich, with the names before them and bars behind."""
    drawn = Table(box=box.SIMPLE, show_edge=False, padding=(0, 0, 0, _GAP - 1), pad_edge=False)
    drawn.show_footer = table.last is not None
    name, sums = table.last or ("", [""] * len(table.headings))
    drawn.add_column(
        Text(table.corner),
        Text(name),
        width=table.names_width(width),
        no_wrap=True,
        overflow="ellipsis",
    )
    for heading, total in zip(table.headings[columns], sums[columns], strict=True):
        drawn.add_column(
            Text(heading),
            Text(total),
            width=table.column_width(),
            justify="right",
            no_wrap=True,
            overflow="ellipsis",
        )
    if bars:
        drawn.add_column()
    for index, (label, row) in enumerate(zip(table.names, table.rows, strict=True)):
        bar = bars[index : index + 1] if bars else ()
        drawn.add_row(Text(label), *map(Text, row[columns]), *bar)
    return drawn
