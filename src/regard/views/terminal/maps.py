"""Heatmaps and comparisons in the terminal."""

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from regard.text import say
from regard.views.numbers import Difference, Grid, shades
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.terminal.blocks import (
    Block,
    cell_width,
    header,
    label_width,
    named,
    painter,
    row_of,
    shrunk,
    signed_painter,
)
from regard.views.terminal.ink import Ink
from regard.views.terminal.tables import table_of

APART = "  "  # between maps that lie side by side
MOST = 12  # differences in a table


def draw_heatmap(
    shown: Grid, scene: Scene, state: State, ink: Ink, width: int
) -> Iterator[Text | Table]:
    """A line for each row; of more columns than fit, the largest of each part."""
    names = label_width(shown.rows, ink, max(6, width // 4))
    room = max(1, width - names - 1)
    block = Block(shown.shades, shown.rows, shown.columns, shown.weights)
    block, parts = shrunk(block, room)
    cell = cell_width(block.columns, room, ink, numbers=block.weights is not None)
    for line in header(block.columns, cell, ink):
        yield Text(" " * (names + 1) + line, no_wrap=True, overflow="crop", style="dim")
    for index, label in enumerate(block.rows):
        yield named(label, names, ink) + row_of(block, index, cell, painter(ink))
    if parts != (1, 1):
        filled = {"rows": parts[0], "columns": parts[1]}
        yield Text(ink.text(say("caption.blocks", state.language, **filled)), style="dim")


def draw_difference(
    shown: Difference, scene: Scene, state: State, ink: Ink, width: int
) -> Iterator[Text | Table]:
    """Two maps and their difference side by side; where there is no room, what differs most."""
    names = label_width(shown.rows, ink, max(6, width // 4))
    count = len(shown.columns)
    room = (width - names - 1 - 2 * len(APART)) // 3
    if not ink.coloured or count > room:
        yield _differing(shown, ink, width)
        return
    cell = cell_width(shown.columns, room, ink, numbers=False)
    both = shades(np.concatenate([shown.first, shown.second], 1), state.scale)
    size = float(np.abs(shown.difference).max(initial=0)) or 1.0
    drawn = (both[:, :count], both[:, count:], shown.difference / np.float32(size))
    blocks = [Block(each, shown.rows, shown.columns) for each in drawn]
    paints = (painter(ink), painter(ink), signed_painter(ink))
    for line in header(shown.columns, cell, ink):
        yield Text(" " * (names + 1) + APART.join([line] * 3), no_wrap=True, style="dim")
    for index, label in enumerate(shown.rows):
        cells = [
            row_of(block, index, cell, paint) for block, paint in zip(blocks, paints, strict=True)
        ]
        yield named(label, names, ink) + Text(APART).join(cells)


def _differing(shown: Difference, ink: Ink, width: int) -> Table:
    """The cells that differ most, with both weights."""
    order = np.argsort(-np.abs(shown.difference), axis=None, kind="stable")[:MOST]
    places = [np.unravel_index(each, shown.difference.shape) for each in order]
    rows: list[list[str | Text]] = []
    for row, column in places:
        weights = (each[row, column] for each in (shown.first, shown.second, shown.difference))
        told = [ink.percent(float(each)) for each in weights]
        rows.append([shown.rows[row].text, ink.arrow, shown.columns[column].text, *told])
    return table_of(rows, ink, "rclrrr", (width - 30) // 2)
