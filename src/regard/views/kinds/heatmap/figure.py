"""A heatmap on paper: coloured cells with labels, and a key to the colours."""

from regard.views import colours
from regard.views.figure.canvas import GAP, TALLEST, Box, Canvas
from regard.views.figure.map_panel import (
    KEY_WIDTH,
    RAMP,
    MapPanel,
    colour_key_marks,
    draw_colour_key,
    draw_map,
    draw_percents,
)
from regard.views.kinds.heatmap.numbers import HeatmapNumbers, framed_labels
from regard.views.scene import Scene
from regard.views.state import ViewState

FRAME_COLOUR = "#c2410c"
THIN_CELL = 4.0  # a cell of a smaller side would be hidden by a frame of the usual width


def draw_heatmap(canvas: Canvas, numbers: HeatmapNumbers, scene: Scene, state: ViewState) -> None:
    """Queries x keys, and a key to the colours."""
    panel = MapPanel(colours.light(numbers.shades), numbers.rows, numbers.columns)
    left = panel.row_label_width() + GAP
    room = canvas.width - left - KEY_WIDTH - 2 * GAP
    wide, high = panel.cell_size(room, TALLEST)
    width, height = wide * len(panel.columns), high * len(panel.rows)
    left += (room - width) / 2  # in the middle of the column
    top = canvas.height + GAP + panel.column_label_height(wide)
    box = (left, top, width, height)
    draw_map(canvas, panel, box)
    _draw_frames(canvas, numbers, box, scene, state)
    if numbers.cells == (1, 1):
        draw_percents(canvas, panel, numbers.weights, box)
    marks = colour_key_marks(state.scale, float(numbers.weights.max(initial=0)))
    key = (left + width + 2 * GAP, top, 5.0, min(max(height, 40.0), 110.0))
    draw_colour_key(canvas, colours.light(RAMP), marks, key)


def _draw_frames(
    canvas: Canvas, numbers: HeatmapNumbers, box: Box, scene: Scene, state: ViewState
) -> None:
    """A frame around each row and column that is pinned or that a finding is about."""
    x, y, width, height = box
    framed = framed_labels(scene, state, numbers.rows, numbers.columns)
    high, wide = height / max(1, len(numbers.rows)), width / len(numbers.columns)
    line = 1.0 if min(high, wide) >= THIN_CELL else 0.5
    frame = {"fill": False, "edgecolor": FRAME_COLOUR, "linewidth": line}
    # A frame around thin cells stands off by a point, so that the cells are still seen.
    down, across = (1.0 if side < THIN_CELL else 0.0 for side in (high, wide))
    for index in framed.rows:
        canvas.box((x, y + index * high - down, width, high + 2 * down), **frame)
    for index in framed.columns:
        canvas.box((x + index * wide - across, y, wide + 2 * across, height), **frame)
