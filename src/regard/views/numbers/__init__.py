"""What each kind of view shows, as numbers: figure, terminal and tests read them by value."""

from collections.abc import Callable

from regard.views.numbers.difference import Difference, difference
from regard.views.numbers.grid import Grid, grid, shades, ticks
from regard.views.numbers.highlight import Shade, Shades, highlights
from regard.views.numbers.image import Cells, cells
from regard.views.numbers.lines import Line, Lines, lines
from regard.views.numbers.reading import Label
from regard.views.numbers.thumbs import Thumb, Thumbs, thumbs
from regard.views.scene import Scene
from regard.views.state import State

Numbers = Grid | Shades | Lines | Thumbs | Cells | Difference

_VIEWS: dict[str, Callable[[Scene, State], Numbers]] = {
    "heads": thumbs,
    "heatmap": grid,
    "highlight": highlights,
    "flow": lines,
    "image": cells,
    "compare": difference,
}

__all__ = [
    "Cells",
    "Difference",
    "Grid",
    "Label",
    "Line",
    "Lines",
    "Numbers",
    "Shade",
    "Shades",
    "Thumb",
    "Thumbs",
    "cells",
    "difference",
    "grid",
    "highlights",
    "lines",
    "numbers",
    "shades",
    "thumbs",
    "ticks",
]


def numbers(scene: Scene, state: State) -> Numbers:
    """The numbers of the picture that a state looks at."""
    return _VIEWS[state.view](scene, state)
