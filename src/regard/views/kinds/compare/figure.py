"""A comparison on paper: two maps in the same colours, and their difference."""

import numpy as np

from regard.views import colours
from regard.views.captions import join_sentences, percent, site_sentence
from regard.views.figure.canvas import GAP, LABEL, TALLEST, Canvas, cut_start
from regard.views.figure.map_panel import (
    KEY_WIDTH,
    RAMP,
    MapPanel,
    colour_key_marks,
    draw_colour_key,
    draw_map,
    draw_percents,
)
from regard.views.kinds.compare.numbers import CompareNumbers, compared_map
from regard.views.labelled_map import shade_weights
from regard.views.scene import Scene
from regard.views.state import ViewState


def draw_compare(canvas: Canvas, numbers: CompareNumbers, scene: Scene, state: ViewState) -> None:
    """The first map, the second, and the first minus the second, from left to right."""
    largest = float(np.abs(numbers.difference).max(initial=0)) or 1.0
    panels = _map_panels(numbers, state, largest)
    left = panels[0].row_label_width() + GAP
    room = (canvas.width - left - 2 * KEY_WIDTH - 3 * GAP) / 3
    wide, high = panels[0].cell_size(room, TALLEST)
    width, height = wide * len(numbers.columns), high * len(numbers.rows)
    title_line = canvas.height + GAP + LABEL
    top = title_line + GAP + panels[0].column_label_height(wide)
    marks = colour_key_marks(state.scale, float(max(numbers.first.max(), numbers.second.max())))
    difference_marks = [(0.0, percent(-largest)), (0.5, "0"), (1.0, percent(largest))]
    lefts = [left, left + width + GAP, left + 2 * width + 2 * GAP + KEY_WIDTH]
    weights = (numbers.first, numbers.second, numbers.difference)
    titles = [*_map_titles(scene, state), "Δ"]
    for index, (x, panel, title) in enumerate(zip(lefts, panels, titles, strict=True)):
        box = (x, top, width, height)
        # A title is cut at its start: the number of the head stands at its end.
        shown_title = cut_start(title, LABEL, max(width, 30))
        canvas.text(x + width / 2, title_line, shown_title, LABEL, ha="center")
        draw_map(canvas, panel, box, rows=index == 0)
        draw_percents(canvas, panel, weights[index], box)
        if index:
            length = min(max(height, 40.0), 110.0)
            ramp = colours.signed(2 * RAMP - 1) if index == 2 else colours.light(RAMP)
            key = (x + width + GAP, top, 5.0, length)
            draw_colour_key(canvas, ramp, difference_marks if index == 2 else marks, key)


def _map_panels(numbers: CompareNumbers, state: ViewState, largest: float) -> list[MapPanel]:
    """The three maps in their colours; `largest` is the largest difference."""
    # Both maps in one array, so that the largest weight of both is the scale of both.
    both = shade_weights(np.concatenate([numbers.first, numbers.second], 1), state.scale)
    count = len(numbers.columns)
    cell_colours = [
        colours.light(both[:, :count]),
        colours.light(both[:, count:]),
        colours.signed(numbers.difference / largest),
    ]
    return [MapPanel(cells, numbers.rows, numbers.columns) for cells in cell_colours]


def _map_titles(scene: Scene, state: ViewState) -> list[str]:
    """The site and head of the left map and of the right one."""
    other = compared_map(scene, state)
    maps = [(state.trace, state.site, state.head), (other.trace, other.site, other.head)]
    return [
        join_sentences(state.language, [site_sentence(scene.trace(trace).site(site), head)])
        for trace, site, head in maps
    ]
