"""A comparison in the terminal: two maps and their difference, or a table of what differs most."""

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from regard.views.kinds.compare.numbers import CompareNumbers
from regard.views.labelled_map import shade_weights
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.layout import (
    CharacterMap,
    cell_width,
    difference_painter,
    header_lines,
    label_width,
    row_label,
    row_text,
    weight_painter,
)
from regard.views.terminal.style import TerminalStyle

GAP = "  "  # between maps that lie side by side
MOST_DIFFERENCES = 12  # rows of the table


def draw_compare(
    numbers: CompareNumbers, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text | Table]:
    """Two maps and their difference side by side; without room or colours, what differs most."""
    labels = label_width(numbers.rows, style, max(6, width // 4))
    count = len(numbers.columns)
    room = (width - labels - 1 - 2 * len(GAP)) // 3
    if not style.coloured or count > room:
        yield _largest_differences(numbers, style, width)
        return
    cell = cell_width(numbers.columns, room, style, numbers=False)
    # Both maps in one array, so that the largest weight of both is the scale of both.
    both = shade_weights(np.concatenate([numbers.first, numbers.second], 1), state.scale)
    largest = float(np.abs(numbers.difference).max(initial=0)) or 1.0
    shades = (both[:, :count], both[:, count:], numbers.difference / np.float32(largest))
    blocks = [CharacterMap(part, numbers.rows, numbers.columns) for part in shades]
    painters = (weight_painter(style), weight_painter(style), difference_painter(style))
    for line in header_lines(numbers.columns, cell, style):
        yield Text(" " * (labels + 1) + GAP.join([line] * 3), no_wrap=True, style="dim")
    for index, label in enumerate(numbers.rows):
        cells = [
            row_text(block, index, cell, paint)
            for block, paint in zip(blocks, painters, strict=True)
        ]
        yield row_label(label, labels, style) + Text(GAP).join(cells)


def _largest_differences(numbers: CompareNumbers, style: TerminalStyle, width: int) -> Table:
    """The cells that differ most, with both weights and their difference."""
    order = np.argsort(-np.abs(numbers.difference), axis=None, kind="stable")[:MOST_DIFFERENCES]
    rows: list[list[str | Text]] = []
    for flat in order:
        row, column = np.unravel_index(flat, numbers.difference.shape)
        maps = (numbers.first, numbers.second, numbers.difference)
        weights = [style.percent(float(weights[row, column])) for weights in maps]
        ends = [numbers.rows[row].text, style.arrow, numbers.columns[column].text]
        rows.append([*ends, *weights])
    return style.table(rows, "rclrrr", (width - 30) // 2)
