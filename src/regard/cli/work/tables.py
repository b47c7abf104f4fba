"""Tables of numbers that fit the terminal, whatever its width and the width of the words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.bar import Bar
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

_GAP = 2
_BAR = 40
_HEADING = 8  # cells of a heading over numbers; longer ones are cut


@dataclass(frozen=True)
class Grid:
    """Named rows of numbers, already written as text, under headings; a last row may sum them."""

    corner: str
    names: Sequence[str]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    last: tuple[str, Sequence[str]] | None = None

    def widest(self) -> int:
        """The cells that its widest number or heading takes."""
        rows = self.rows if self.last is None else [*self.rows, self.last[1]]
        numbers = max(cell_len(cell) for row in rows for cell in row)
        return max(numbers, *(min(_HEADING, cell_len(heading)) for heading in self.headings))

    def fitting(self, width: int) -> int:
        """How many columns fit beside the names."""
        return max(1, (width - self.margin(width)) // (self.widest() + _GAP))

    def margin(self, width: int) -> int:
        """The cells that the names take: at most a third of the width."""
        corner = [self.corner] if self.last is None else [self.corner, self.last[0]]
        return min(max(cell_len(name) for name in [*corner, *self.names]), max(4, width // 3))


def number(value: float) -> str:
    """Three decimals, in few characters whatever the size; zero is zero only if exactly so."""
    if value == 0:
        return "0"
    return f"{value:.3f}" if 0.001 <= abs(value) < 10_000 else f"{value:.0e}"


def blocks(grid: Grid, width: int) -> Iterator[Table]:
    """The whole grid, cut between columns into tables that fit."""
    step = grid.fitting(width)
    for start in range(0, len(grid.headings), step):
        yield _table(grid, slice(start, start + step), width)


def beginning(grid: Grid, width: int) -> tuple[Table, int]:
    """The columns that fit, and how many do not."""
    shown = grid.fitting(width)
    return _table(grid, slice(shown), width), max(0, len(grid.headings) - shown)


def bars(grid: Grid, sizes: Sequence[float], width: int) -> Table:
    """The grid with a bar behind each row, a size of one being the whole bar."""
    room = width - grid.margin(width) - len(grid.headings) * (grid.widest() + _GAP) - _GAP
    drawn = [Bar(1, 0, size, width=max(1, min(room, _BAR))) for size in sizes]
    return _table(grid, slice(None), width, drawn if room > 0 else None)


def _table(grid: Grid, columns: slice, width: int, drawn: Sequence[Bar] | None = None) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, padding=(0, 0, 0, _GAP - 1), pad_edge=False)
    table.show_footer = grid.last is not None
    name, sums = grid.last or ("", [""] * len(grid.headings))
    table.add_column(
        Text(grid.corner), Text(name), width=grid.margin(width), no_wrap=True, overflow="ellipsis"
    )
    for heading, total in zip(grid.headings[columns], sums[columns], strict=True):
        table.add_column(
            Text(heading),
            Text(total),
            width=grid.widest(),
            justify="right",
            no_wrap=True,
            overflow="ellipsis",
        )
    if drawn:
        table.add_column()
    for index, (label, row) in enumerate(zip(grid.names, grid.rows, strict=True)):
        table.add_row(
            Text(label), *map(Text, row[columns]), *(drawn[index : index + 1] if drawn else ())
        )
    return table
