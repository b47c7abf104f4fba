"""A sheet of paper in points from its upper left corner, on which text and shapes are put."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from regard.views.figure.columns import GAP
from regard.views.figure.fonts import drawable, properties

INK, PALE, RULE = "#1a1a1a", "#8a8a8a", "#c8c8c8"
FINE = 10  # text is measured this many times larger, where rounding to pixels is small
MIDDLE = 0.36  # of its size is what the middle of a letter lies above its line

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "svg.hashsalt": "regard",  # the same figure has the same bytes
    "text.hinting": "none",
}


@contextmanager
def settings() -> Iterator[None]:
    """Matplotlib as it comes, whatever the caller has set, and as the caller has it afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


class Sheet:
    """A figure of a given width that grows downwards as things are put on it."""

    def __init__(self, width: float) -> None:
        self.width, self.height = width, 0.0
        self.texts: list[str] = []
        self.figure = Figure(figsize=(width / 72, 1), facecolor="white")
        FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()

    def text(self, x: float, y: float, text: str, size: float, **style: Any) -> None:
        """Text whose line is at y; `ha` says which of its ends or its middle is at x."""
        shown = drawable(text)
        self.texts.append(shown)
        style = {"color": INK, "ha": "left", "va": "baseline", "rotation_mode": "anchor"} | style
        font = properties(shown, size)
        self.axes.text(x, y, shown, fontproperties=font, parse_math=False, **style)
        self.grow(y + size * 0.3)

    def image(self, colours: NDArray[Any], box: "Box", *, smooth: bool = False) -> None:
        """Cells of colours that fill a box."""
        x, y, width, height = box
        how = "bilinear" if smooth else "nearest"
        image = AxesImage(self.axes, extent=(x, x + width, y + height, y), interpolation=how)
        image.set_data(colours)
        image.set_transform(self.axes.transData)
        self.axes.add_image(image)
        self.grow(y + height)

    def box(self, box: "Box", **style: Any) -> None:
        """A rectangle."""
        x, y, width, height = box
        self.axes.add_patch(Rectangle((x, y), width, height, **({"linewidth": 0} | style)))
        self.grow(y + height)

    def pill(self, box: "Box", colour: Any, corner: float = 1.8) -> None:
        """A rectangle with round corners."""
        x, y, width, height = box
        style = f"round,pad=0,rounding_size={min(corner, width / 2, height / 2)}"
        shape = FancyBboxPatch((x, y), width, height, boxstyle=style, linewidth=0, facecolor=colour)
        self.axes.add_patch(shape)
        self.grow(y + height)

    def curves(
        self, paths: Sequence[Path], colours: Sequence[Any], widths: Sequence[float]
    ) -> None:
        """Lines, the last on top."""
        drawn = PathCollection(paths, facecolors="none", edgecolors=colours, linewidths=widths)
        drawn.set_transform(self.axes.transData)
        drawn.set_capstyle("round")
        self.axes.add_collection(drawn, autolim=False)

    def grow(self, bottom: float) -> None:
        """Reach at least this far down."""
        self.height = max(self.height, bottom)

    def finished(self) -> Figure:
        """The figure, as high as what is on it."""
        height = self.height + GAP
        self.figure.set_size_inches(self.width / 72, height / 72)
        self.axes.set_xlim(0, self.width)
        self.axes.set_ylim(height, 0)
        return self.figure


Box = tuple[float, float, float, float]


@cache
def measured(text: str, size: float) -> float:
    """The width of a text in points."""
    if not text:
        return 0.0
    shown = drawable(text)
    width, _, _ = _ruler().get_text_width_height_descent(shown, properties(shown, size), False)
    return float(width) / FINE


@cache
def _ruler() -> Any:
    canvas: Any = FigureCanvasAgg(Figure(figsize=(0.1, 0.1), dpi=72 * FINE))
    return canvas.get_renderer()


def cut(text: str, size: float, room: float) -> str:
    """As much of the beginning of a text as there is room for, with … for the rest."""
    return text if measured(text, size) <= room else _cut(text, size, room, "{}…", slice(None))


def cut_front(text: str, size: float, room: float) -> str:
    """As much of the end of a text as there is room for, with … for the rest."""
    turned = slice(None, None, -1)
    return text if measured(text, size) <= room else _cut(text, size, room, "…{}", turned)


def _cut(text: str, size: float, room: float, form: str, order: slice) -> str:
    """The longest part of a text that has room in the form; letters count in an order."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = measured(form.format(text[order][:middle][order]), size) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return form.format(text[order][:low][order].strip())
