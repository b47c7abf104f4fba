"""Heatmaps and comparisons on paper."""

import numpy as np

from regard.views import colours
from regard.views.captions import join_sentences, percent, place_said
from regard.views.figure.boards import (
    KEY,
    RAMP,
    Board,
    draw_board,
    draw_key,
    draw_numbers,
    key_values,
)
from regard.views.figure.columns import GAP, LABEL, TALLEST
from regard.views.figure.sheet import Box, Sheet, cut_front
from regard.views.numbers import Difference, Grid, shades
from regard.views.numbers.difference import other_place
from regard.views.numbers.marks import marks
from regard.views.scene import Scene
from regard.views.state import State

MARK = "#c2410c"
THIN = 4.0  # the side of a cell that a frame would hide


def draw_heatmap(sheet: Sheet, shown: Grid, scene: Scene, state: State) -> None:
    """Queries x keys, and a key to the colours."""
    board = Board(colours.light(shown.shades), shown.rows, shown.columns)
    left = board.row_room() + GAP
    room = sheet.width - left - KEY - 2 * GAP
    wide, high = board.cell(room, TALLEST)
    width, height = wide * len(board.columns), high * len(board.rows)
    left += (room - width) / 2  # in the middle of the column
    top = sheet.height + GAP + board.column_room(wide)
    box = (left, top, width, height)
    draw_board(sheet, board, box)
    _draw_marks(sheet, shown, box, scene, state)
    if not _is_long(shown):
        draw_numbers(sheet, board, shown.weights, box)
    said = key_values(state.scale, float(shown.weights.max(initial=0)))
    _draw_key_beside(sheet, box, said)


def _draw_marks(sheet: Sheet, shown: Grid, box: Box, scene: Scene, state: State) -> None:
    """A frame around each row and column that is pinned or that a finding is about."""
    x, y, width, height = box
    found = marks(scene, state, shown.rows, shown.columns)
    high, wide = height / max(1, len(shown.rows)), width / len(shown.columns)
    frame = {"fill": False, "edgecolor": MARK, "linewidth": 1.0 if min(high, wide) >= THIN else 0.5}
    # around what is thinner than a line, so that it is still seen
    down, across = (1.0 if each < THIN else 0.0 for each in (high, wide))
    for index in found.rows:
        sheet.box((x, y + index * high - down, width, high + 2 * down), **frame)
    for index in found.columns:
        sheet.box((x + index * wide - across, y, wide + 2 * across, height), **frame)


def _is_long(shown: Grid) -> bool:
    return shown.cells != (1, 1)


def _draw_key_beside(sheet: Sheet, box: Box, said: list[tuple[float, str]]) -> None:
    x, y, width, height = box
    length = min(max(height, 40.0), 110.0)
    draw_key(sheet, colours.light(RAMP), said, (x + width + 2 * GAP, y, 5.0, length))


def draw_difference(sheet: Sheet, shown: Difference, scene: Scene, state: State) -> None:
    """Two maps in the same colours, and the first minus the second."""
    # one after the other in one array: the largest of both is the scale of both
    both = shades(np.concatenate([shown.first, shown.second], 1), state.scale)
    count = len(shown.columns)
    largest = float(np.abs(shown.difference).max(initial=0)) or 1.0
    drawn = [
        colours.light(both[:, :count]),
        colours.light(both[:, count:]),
        colours.signed(shown.difference / largest),
    ]
    boards = [Board(each, shown.rows, shown.columns) for each in drawn]
    left = boards[0].row_room() + GAP
    room = (sheet.width - left - 2 * KEY - 3 * GAP) / 3
    wide, high = boards[0].cell(room, TALLEST)
    width, height = wide * count, high * len(shown.rows)
    title = sheet.height + GAP + LABEL
    top = title + GAP + boards[0].column_room(wide)
    values = key_values(state.scale, float(max(shown.first.max(), shown.second.max())))
    signed = [(0.0, percent(-largest)), (0.5, "0"), (1.0, percent(largest))]
    places = [left, left + width + GAP, left + 2 * width + 2 * GAP + KEY]
    inside = (shown.first, shown.second, shown.difference)
    for index, (x, board, name) in enumerate(
        zip(places, boards, [*_names(scene, state), "Δ"], strict=True)
    ):
        box = (x, top, width, height)
        called = cut_front(name, LABEL, max(width, 30))  # which head it is stands at the end
        sheet.text(x + width / 2, title, called, LABEL, ha="center")
        draw_board(sheet, board, box, rows=index == 0)
        draw_numbers(sheet, board, inside[index], box)
        if index:
            length = min(max(height, 40.0), 110.0)
            ramp = colours.signed(2 * RAMP - 1) if index == 2 else colours.light(RAMP)
            key = (x + width + GAP, top, 5.0, length)
            draw_key(sheet, ramp, signed if index == 2 else values, key)


def _names(scene: Scene, state: State) -> list[str]:
    """What is left and what is right."""
    other = other_place(scene, state)
    places = [(state.trace, state.site, state.head), (other.trace, other.site, other.head)]
    return [
        join_sentences(state.language, [place_said(scene.trace(trace).site(site), head)])
        for trace, site, head in places
    ]
