"""A map on paper: coloured cells, labels that do not overlap, and a key to the colours."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.unicode import cut_text
from regard.views import colours
from regard.views.captions import percent
from regard.views.figure.canvas import (
    GAP,
    INK,
    LABEL,
    MIDDLE,
    PALE,
    RULE,
    SMALL,
    Box,
    Canvas,
    cut_end,
    text_width,
)
from regard.views.labelled_map import Label, ticks

LARGEST_CELL = 26.0  # points of its side
NUMBERED_CELL = 17.0  # width of a cell from which on numbers are written into it
LONGEST_LABEL = 78.0
MOST_LETTERS = 60  # of a label that are measured; even of narrow letters no more fit
LABEL_PITCH = LABEL + 1.5  # between the baselines of neighbouring labels


@dataclass(frozen=True, eq=False)
class MapPanel:
    """Colours of cells with the labels of their rows and columns."""

    colours: NDArray[Any]
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]

    def cell_size(self, width: float, height: float) -> tuple[float, float]:
        """Width and height of a cell: square, unless labels of few rows or columns need more."""
        counts = len(self.columns), max(1, len(self.rows))
        rooms = width / counts[0], height / counts[1]
        side = min(LARGEST_CELL, *rooms)
        # Cells are stretched only if that makes room for every label.
        wide, high = (
            LABEL_PITCH if side < LABEL_PITCH <= min(room, 2 * side) else side for room in rooms
        )
        return wide, high

    def row_label_width(self) -> float:
        """The width that the labels of rows take."""
        return min(LONGEST_LABEL, max(_label_widths(self.rows), default=0)) + GAP

    def column_label_height(self, cell: float) -> float:
        """The height that the labels of columns take: level if they fit, else turned by 90°."""
        return LABEL + GAP if self.level_labels(cell) else min(LONGEST_LABEL, self.widest) + GAP

    @cached_property
    def widest(self) -> float:
        """The width of the widest label of a column."""
        return max(_label_widths(self.columns), default=0)

    def level_labels(self, cell: float) -> bool:
        """True if columns are wide enough for level labels, or turning would save no width."""
        return self.widest <= cell - 2 or (cell < LABEL_PITCH and self.widest <= 1.6 * LABEL)


def _label_widths(labels: tuple[Label, ...]) -> list[float]:
    """The widths of all different labels in points."""
    return [text_width(text, LABEL) for text in {label.text[:MOST_LETTERS] for label in labels}]


def draw_map(canvas: Canvas, panel: MapPanel, box: Box, *, rows: bool = True) -> None:
    """The cells in their box, the labels of columns above and those of rows to the left."""
    x, y, width, height = box
    canvas.image(panel.colours, box)
    frame = {"fill": False, "edgecolor": RULE, "linewidth": 0.5}
    canvas.box(box, **frame)
    wide = width / len(panel.columns)
    if rows:
        high = height / max(1, len(panel.rows))
        for index in ticks(len(panel.rows), int(height / LABEL_PITCH)):
            middle = y + (index + 0.5) * high
            _draw_label(
                canvas, (x - GAP / 2, middle + MIDDLE * LABEL), panel.rows[index], ha="right"
            )
    level = panel.level_labels(wide)
    pitch = panel.widest + 2 if level else LABEL_PITCH
    most = int(width / pitch + 1e-6)
    for index in ticks(len(panel.columns), most):
        middle = x + (index + 0.5) * wide
        if level:
            _draw_label(canvas, (middle, y - GAP / 2), panel.columns[index], ha="center")
        else:
            place = (middle + MIDDLE * LABEL, y - GAP / 2)
            _draw_label(canvas, place, panel.columns[index], rotation=90)


def _draw_label(canvas: Canvas, place: tuple[float, float], label: Label, **style: Any) -> None:
    """Draw one label of a row or column; a special token is paler, a long text is cut."""
    ink = PALE if label.special else INK
    text = cut_end(cut_text(label.text, MOST_LETTERS), LABEL, LONGEST_LABEL)
    canvas.text(*place, text, LABEL, color=ink, **style)


def draw_percents(canvas: Canvas, panel: MapPanel, weights: NDArray[Any], box: Box) -> None:
    """Weights in whole percents in cells with room for them; none below half a percent."""
    x, y, width, height = box
    rows, columns = weights.shape
    wide, high = width / columns, height / max(1, rows)
    if wide < NUMBERED_CELL or high < SMALL + 3:
        return
    for row, column in np.argwhere(np.abs(weights) >= 0.005):
        place = x + (column + 0.5) * wide, y + (row + 0.5) * high + MIDDLE * SMALL
        ink = "white" if colours.is_dim(panel.colours[row, column]) else INK
        number = f"{100 * float(weights[row, column]):.0f}".replace("-", "−")
        canvas.text(*place, number, SMALL, color=ink, ha="center")


def draw_colour_key(
    canvas: Canvas, ramp: NDArray[Any], marks: list[tuple[float, str]], box: Box
) -> None:
    """A ramp of colours from 0 (below) to 1 (above), with texts at some shades."""
    x, y, width, height = box
    canvas.image(ramp[::-1, None], box, smooth=False)
    for at, text in marks:
        middle = y + (1 - at) * height
        canvas.box((x + width, middle - 0.2, 1.5, 0.4), facecolor=PALE)
        canvas.text(x + width + 2.5, middle + MIDDLE * SMALL, text, SMALL, color=INK)


def colour_key_marks(scale: str, largest: float) -> list[tuple[float, str]]:
    """Shades of the ramp and the weights that they stand for."""
    if scale == "log":
        return [(step / 5, f"{10.0 ** (step - 3):g}%") for step in range(6)]
    if scale == "row":
        return [(0.0, "0"), (1.0, "max")]
    return [(0.0, "0"), (0.5, percent(largest / 2)), (1.0, percent(largest))]


RAMP = np.linspace(0, 1, 128)
KEY_WIDTH = 34.0  # the room that a colour key takes to the right of a map
