"""Attention over an image in the terminal: its patches, two rows of shades in each character."""

from collections.abc import Iterator

from rich.text import Text

from regard.views.kinds.overlay.numbers import OverlayNumbers
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.layout import half_block_lines, max_pool
from regard.views.terminal.style import TerminalStyle

LARGEST_PATCH, LARGEST_WIDTH = 8, 64  # columns of one patch, and of the whole picture


def draw_overlay(
    numbers: OverlayNumbers, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text]:
    """The patches in their grid, each as large as there is room for."""
    step = -(-numbers.shades.shape[1] // width)
    shades = max_pool(numbers.shades, step, step)
    columns = shades.shape[1]
    scale = max(1, min(LARGEST_PATCH, width // columns, LARGEST_WIDTH // columns))
    yield from half_block_lines(shades.repeat(scale, 0).repeat(scale, 1), style)
