"""Maps as blocks of characters: cells, labels that fit, and cells joined if there are too many."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.views.labelled_map import Floats, Label, ticks
from regard.views.terminal.style import TerminalStyle, pad

NUMBER_WIDTH = 4  # columns of a cell that holds a number
LABEL_CELL_WIDTH = 10  # most columns of a cell that holds its label
LABEL_HEIGHT = 8  # most letters of a column label that stand above each other
DIM = Style(dim=True)
MOST_LINES = 48  # lines of a map whose rows are joined
UPPER_HALF = "▀"


@dataclass(frozen=True, eq=False)
class CharacterMap:
    """Shades of cells, the weights to be written in them, and the labels of rows and columns."""

    shades: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    weights: Floats | None = None


def shrink_map(block: CharacterMap, room: int) -> tuple[CharacterMap, tuple[int, int]]:
    """A map with no more columns than fit, and how many rows and columns each cell now joins."""
    height, width = block.shades.shape
    across = -(-width // room)
    if across == 1:
        return block, (1, 1)
    # A character is twice as high as it is wide.
    down = 1 if height <= MOST_LINES // 2 else min(2 * across, -(-height // (MOST_LINES // 4)))
    shades = max_pool(block.shades, down, across)
    return CharacterMap(shades, block.rows[::down], block.columns[::across]), (down, across)


def max_pool(shades: Floats, down: int, across: int) -> Floats:
    """The strongest shade of each part of `down` rows and `across` columns."""
    pooled = np.maximum.reduceat(shades, range(0, shades.shape[0], down), axis=0)
    largest: Floats = np.maximum.reduceat(pooled, range(0, shades.shape[1], across), axis=1)
    return largest


def cell_width(columns: Sequence[Label], room: int, style: TerminalStyle, *, numbers: bool) -> int:
    """Columns of one cell: enough for its label or a number if possible, else two, else one."""
    longest = max((cell_len(style.printable(label.text)) for label in columns), default=0)
    widths = [min(LABEL_CELL_WIDTH, max(NUMBER_WIDTH, longest + 1)), NUMBER_WIDTH]
    candidates = (*widths, 2) if numbers else (2,)
    return next((width for width in candidates if len(columns) * width <= room), 1)


def label_width(labels: Sequence[Label], style: TerminalStyle, room: int) -> int:
    """Columns that the labels of rows take."""
    widest = max((cell_len(style.printable(label.text)) for label in labels), default=1)
    return max(1, min(widest, room))


def header_lines(columns: Sequence[Label], cell: int, style: TerminalStyle) -> list[str]:
    """The labels of columns: in one line if each fits, else their letters above each other."""
    texts = [style.printable(label.text) for label in columns]
    if max(map(cell_len, texts), default=0) < cell:
        return ["".join(pad(text, cell, "center") for text in texts)]
    shown = ticks(len(texts), len(texts) * cell // 2)
    high = min(LABEL_HEIGHT, max(len(texts[index]) for index in shown))
    ellipsis = "~" if style.ascii_only else "⋮"
    texts = [text if len(text) <= high else text[: high - 1] + ellipsis for text in texts]
    lines = []
    for line in range(high):
        letters = [
            text[line - high + len(text)] if index in shown and line >= high - len(text) else ""
            for index, text in enumerate(texts)
        ]
        lines.append(_spread_letters(letters, cell))
    return lines


def _spread_letters(letters: Sequence[str], cell: int) -> str:
    """Letters each at its cell; a wide one reaches over the empty cell after it."""
    line = ""
    for index, letter in enumerate(letters):
        blank = index * cell - cell_len(line)
        if letter and blank >= 0:
            line += " " * blank + pad(letter, cell, "center")
    return pad(line, len(letters) * cell, "left")


CellPainter = Callable[[float, str, int], tuple[str, Style | None]]


def row_text(block: CharacterMap, index: int, cell: int, paint: CellPainter) -> Text:
    """The cells of one row."""
    row = Text(no_wrap=True, overflow="crop")
    weights = None if block.weights is None or cell < NUMBER_WIDTH else block.weights[index]
    for column, shade in enumerate(block.shades[index]):
        number = "" if weights is None else whole_percent(float(weights[column]))
        row.append(*paint(float(shade), number, cell))
    return row


def weight_painter(style: TerminalStyle) -> CellPainter:
    """Paints cells by colour; without colours by their number and a character as dense."""

    def paint(shade: float, number: str, cell: int) -> tuple[str, Style | None]:
        if style.coloured:
            return pad(number, cell - 1) + " " if cell > 1 else " ", style.shade_style(shade)
        if cell >= NUMBER_WIDTH:
            return pad(number, cell - 1) + style.shade_character(shade), None
        return style.shade_character(shade) * cell, None

    return paint


def difference_painter(style: TerminalStyle) -> CellPainter:
    """Paints cells of differences by colour."""

    def paint(shade: float, number: str, cell: int) -> tuple[str, Style | None]:
        return pad(number, cell), style.difference_style(shade)

    return paint


def whole_percent(weight: float) -> str:
    """A weight as a whole number of percent; "" below half a percent."""
    number = round(100 * weight)
    return str(number) if number else ""


def row_label(label: Label, width: int, style: TerminalStyle) -> Text:
    """The label that stands before the cells of its row."""
    text = pad(style.cut(label.text, width), width)
    return Text(text + " ", style=DIM if label.special else "", no_wrap=True)


def half_block_lines(shades: Floats, style: TerminalStyle) -> list[Text]:
    """Lines of characters that each show two rows of shades."""
    if len(shades) % 2:
        shades = np.concatenate([shades, shades[-1:]])
    lines = []
    for upper, lower in zip(shades[::2], shades[1::2], strict=True):
        line = Text(no_wrap=True, overflow="crop")
        for above, below in zip(upper, lower, strict=True):
            if style.coloured and not style.ascii_only:
                line.append(UPPER_HALF, style.half_block_style(float(above), float(below)))
            elif style.coloured:
                line.append(" ", style.shade_style(float(max(above, below))))
            else:
                line.append(style.shade_character(float(max(above, below))))
        lines.append(line)
    return lines
