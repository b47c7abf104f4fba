"""A heatmap in the terminal: a line for each row, cells with their percents."""

from collections.abc import Iterator

from rich.text import Text

from regard.text import say
from regard.views.kinds.heatmap.numbers import HeatmapNumbers
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.layout import (
    CharacterMap,
    cell_width,
    header_lines,
    label_width,
    row_label,
    row_text,
    shrink_map,
    weight_painter,
)
from regard.views.terminal.style import TerminalStyle


def draw_heatmap(
    numbers: HeatmapNumbers, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text]:
    """A line for each row; of more columns than fit, the largest weight of each part."""
    labels = label_width(numbers.rows, style, max(6, width // 4))
    room = max(1, width - labels - 1)
    whole = CharacterMap(numbers.shades, numbers.rows, numbers.columns, numbers.weights)
    block, joined = shrink_map(whole, room)
    cell = cell_width(block.columns, room, style, numbers=block.weights is not None)
    for line in header_lines(block.columns, cell, style):
        yield Text(" " * (labels + 1) + line, no_wrap=True, overflow="crop", style="dim")
    paint = weight_painter(style)
    for index, label in enumerate(block.rows):
        yield row_label(label, labels, style) + row_text(block, index, cell, paint)
    if joined != (1, 1):
        note = say("caption.blocks", state.language, rows=joined[0], columns=joined[1])
        yield Text(style.printable(note), style="dim")
