"""A map on paper: cells, labels that do not overlap, and what its colours mean."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.views import colours
from regard.views.captions import percent
from regard.views.figure.columns import GAP, LABEL, SMALL
from regard.views.figure.sheet import INK, MIDDLE, PALE, RULE, Box, Sheet, cut, measured
from regard.views.numbers import Label, ticks

LARGEST = 26.0  # the side of a cell
ROOMY = 17.0  # a side of a cell from which on numbers are written into it
LONGEST = 78.0  # a label
PITCH = LABEL + 1.5  # between the lines of labels


@dataclass(frozen=True, eq=False)
class Board:
    """Colours of cells with the labels of their rows and columns."""

    colours: NDArray[Any]
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]

    def cell(self, width: float, height: float) -> tuple[float, float]:
        """Width and height of a cell: square, unless labels of few rows or columns need more."""
        counts = len(self.columns), max(1, len(self.rows))
        rooms = width / counts[0], height / counts[1]
        side = min(LARGEST, *rooms)
        # stretched only if every label can be had by it
        wide, high = (PITCH if side < PITCH <= min(room, 2 * side) else side for room in rooms)
        return wide, high

    def row_room(self) -> float:
        """The width that labels of rows take."""
        return min(LONGEST, max(_widths(self.rows), default=0)) + GAP

    def column_room(self, cell: float) -> float:
        """The height that labels of columns take: upright if they fit, else turned."""
        return LABEL + GAP if self.upright(cell) else min(LONGEST, self.widest) + GAP

    @cached_property
    def widest(self) -> float:
        """The width of the widest label of a column."""
        return max(_widths(self.columns), default=0)

    def upright(self, cell: float) -> bool:
        """Whether columns are wide enough for their labels, or these as narrow as when turned."""
        return self.widest <= cell - 2 or (cell < PITCH and self.widest <= 1.6 * LABEL)


def _widths(labels: tuple[Label, ...]) -> list[float]:
    return [measured(text, LABEL) for text in {each.text for each in labels}]


def draw_board(sheet: Sheet, board: Board, box: Box, *, rows: bool = True) -> None:
    """Cells in their box, the labels of columns above, those of rows to the left."""
    x, y, width, height = box
    sheet.image(board.colours, box)
    frame = {"fill": False, "edgecolor": RULE, "linewidth": 0.5}
    sheet.box(box, **frame)
    wide = width / len(board.columns)
    if rows:
        high = height / max(1, len(board.rows))
        for index in ticks(len(board.rows), int(height / PITCH)):
            middle = y + (index + 0.5) * high
            _label(sheet, (x - GAP / 2, middle + MIDDLE * LABEL), board.rows[index], ha="right")
    upright = board.upright(wide)
    pitch = board.widest + 2 if upright else PITCH
    most = int(width / pitch + 1e-6)
    for index in ticks(len(board.columns), most):
        middle = x + (index + 0.5) * wide
        if upright:
            _label(sheet, (middle, y - GAP / 2), board.columns[index], ha="center")
        else:
            place = (middle + MIDDLE * LABEL, y - GAP / 2)
            _label(sheet, place, board.columns[index], rotation=90)


def _label(sheet: Sheet, place: tuple[float, float], label: Label, **style: Any) -> None:
    ink = PALE if label.special else INK
    text = cut(label.text, LABEL, LONGEST)
    sheet.text(*place, text, LABEL, color=ink, **style)


def draw_numbers(sheet: Sheet, board: Board, weights: NDArray[Any], box: Box) -> None:
    """Weights in hundredths in cells that have room for them; none below a half."""
    x, y, width, height = box
    rows, columns = weights.shape
    wide, high = width / columns, height / max(1, rows)
    if wide < ROOMY or high < SMALL + 3:
        return
    for row, column in np.argwhere(np.abs(weights) >= 0.005):
        place = x + (column + 0.5) * wide, y + (row + 0.5) * high + MIDDLE * SMALL
        ink = "white" if colours.is_dim(board.colours[row, column]) else INK
        number = f"{100 * weights[row, column]:.0f}".replace("-", "−")
        sheet.text(*place, number, SMALL, color=ink, ha="center")


def draw_key(sheet: Sheet, ramp: NDArray[Any], said: list[tuple[float, str]], box: Box) -> None:
    """What colours mean: a ramp from 0 (below) to 1 (above), and some of its values."""
    x, y, width, height = box
    sheet.image(ramp[::-1, None], box, smooth=False)
    for at, text in said:
        middle = y + (1 - at) * height
        sheet.box((x + width, middle - 0.2, 1.5, 0.4), facecolor=PALE)
        sheet.text(x + width + 2.5, middle + MIDDLE * SMALL, text, SMALL, color=INK)


def key_values(scale: str, largest: float) -> list[tuple[float, str]]:
    """Places on the ramp and the weights that they stand for."""
    if scale == "log":
        return [(step / 5, f"{10.0 ** (step - 3):g}%") for step in range(6)]
    if scale == "row":
        return [(0.0, "0"), (1.0, "max")]
    return [(0.0, "0"), (0.5, percent(largest / 2)), (1.0, percent(largest))]


RAMP = np.linspace(0, 1, 128)
KEY = 34.0  # the room to the right of a map that a key takes
