"""Maps as blocks of characters: cells, labels that fit, and parts joined if there are too many."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.views.numbers import Label, ticks
from regard.views.numbers.reading import Floats
from regard.views.terminal.ink import Ink, padded

NUMBER = 4  # columns of a cell that holds a number
WIDEST = 10  # columns of one that holds its label
HIGHEST = 8  # letters of a label that stand above each other
PALE = Style(dim=True)
LINES = 48  # rows of a map that is not as long as it is


@dataclass(frozen=True, eq=False)
class Block:
    """Shades in cells, the weights to be written in them, and what rows and columns are called."""

    shades: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    weights: Floats | None = None


def shrunk(block: Block, room: int) -> tuple[Block, tuple[int, int]]:
    """A block with as many columns as have room, and how many rows and columns are one now."""
    height, width = block.shades.shape
    across = -(-width // room)
    if across == 1:
        return block, (1, 1)
    # a character is twice as high as it is wide
    down = 1 if height <= LINES // 2 else min(2 * across, -(-height // (LINES // 4)))
    shades = largest(block.shades, down, across)
    return Block(shades, block.rows[::down], block.columns[::across]), (down, across)


def largest(shades: Floats, down: int, across: int) -> Floats:
    """The strongest shade of each part of some rows and columns."""
    found = np.maximum.reduceat(shades, range(0, shades.shape[0], down), axis=0)
    kept: Floats = np.maximum.reduceat(found, range(0, shades.shape[1], across), axis=1)
    return kept


def cell_width(columns: Sequence[Label], room: int, ink: Ink, *, numbers: bool) -> int:
    """Columns of one cell: with room for its label or a number if possible, else two, else one."""
    longest = max((cell_len(ink.text(each.text)) for each in columns), default=0)
    wanted = [min(WIDEST, max(NUMBER, longest + 1)), NUMBER] if numbers else []
    return next((each for each in (*wanted, 2) if len(columns) * each <= room), 1)


def label_width(labels: Sequence[Label], ink: Ink, room: int) -> int:
    """Columns that the labels of rows take."""
    widest = max((cell_len(ink.text(each.text)) for each in labels), default=1)
    return max(1, min(widest, room))


def header(columns: Sequence[Label], cell: int, ink: Ink) -> list[str]:
    """The labels of columns: level if each fits, else their letters above each other."""
    texts = [ink.text(each.text) for each in columns]
    if max(map(cell_len, texts), default=0) < cell:
        return ["".join(padded(each, cell, "center") for each in texts)]
    shown = ticks(len(texts), len(texts) * cell // 2)
    high = min(HIGHEST, max(len(texts[index]) for index in shown))
    rest = "~" if ink.plain else "⋮"
    texts = [each if len(each) <= high else each[: high - 1] + rest for each in texts]
    lines = []
    for line in range(high):
        letters = [
            text[line - high + len(text)] if index in shown and line >= high - len(text) else ""
            for index, text in enumerate(texts)
        ]
        lines.append(_spread(letters, cell))
    return lines


def _spread(letters: Sequence[str], cell: int) -> str:
    """Letters each at its cell; a wide one reaches over the empty cell after it."""
    line = ""
    for index, letter in enumerate(letters):
        blank = index * cell - cell_len(line)
        if letter and blank >= 0:
            line += " " * blank + padded(letter, cell, "center")
    return padded(line, len(letters) * cell, "left")


def row_of(block: Block, index: int, cell: int, paint: "Paint") -> Text:
    """The cells of one row."""
    found = Text(no_wrap=True, overflow="crop")
    weights = None if block.weights is None or cell < NUMBER else block.weights[index]
    for column, shade in enumerate(block.shades[index]):
        number = "" if weights is None else hundredths(float(weights[column]))
        found.append(*paint(float(shade), number, cell))
    return found


Paint = Callable[[float, str, int], tuple[str, Style | None]]


def painter(ink: Ink) -> Paint:
    """Cells by their colours; without colours by their number, or a character as dense."""

    def paint(shade: float, number: str, cell: int) -> tuple[str, Style | None]:
        if ink.coloured:
            return padded(number, cell - 1) + " " if cell > 1 else " ", ink.style(shade)
        if cell >= NUMBER:
            dense = ink.shade(shade)
            return padded(number, cell - 1) + dense, None
        return ink.shade(shade) * cell, None

    return paint


def signed_painter(ink: Ink) -> Paint:
    """Cells of differences by their colours."""

    def paint(shade: float, number: str, cell: int) -> tuple[str, Style | None]:
        return padded(number, cell), ink.signed_style(shade)

    return paint


def hundredths(weight: float) -> str:
    """A weight as a whole number of percents; none below a half."""
    number = round(100 * weight)
    return str(number) if number else ""


def named(label: Label, width: int, ink: Ink) -> Text:
    """The label of a row before its cells."""
    text = padded(ink.cut(label.text, width), width)
    return Text(text + " ", style=PALE if label.special else "", no_wrap=True)
