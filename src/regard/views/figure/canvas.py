"""A figure to draw on, measured in points from its upper left corner, and the sizes on paper."""

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

from regard.errors import InputError
from regard.views.figure.fonts import drawable_text, font_properties

POINTS_PER_MILLIMETRE = 72 / 25.4
COLUMNS = {"single": 88.0, "double": 180.0}  # millimetres of a column of a paper
NARROWEST, WIDEST = 40.0, 420.0  # millimetres
TALLEST = 640.0  # points that the picture on a page may be high, above its caption

SMALL, LABEL, CAPTION, TITLE = 6.0, 7.0, 8.0, 9.0  # sizes of letters
GAP = 4.0

Width = float | str

INK, PALE, RULE = "#1a1a1a", "#8a8a8a", "#c8c8c8"  # colours of letters and frames
RULER_SCALE = 10  # text is measured ten times larger, where rounding to pixels is small
MIDDLE = 0.36  # the middle of a letter lies this share of its size above its baseline

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "svg.hashsalt": "regard",  # the same figure has the same bytes
    "text.hinting": "none",
}


def width_in_points(width: Width) -> float:
    """The width of a figure in points, given as "single", "double" or in millimetres.

    >>> from regard.views.figure.canvas import width_in_points
    >>> round(width_in_points("single")), round(width_in_points(254))
    (249, 720)
    """
    millimetres = COLUMNS.get(width) if isinstance(width, str) else width
    if not isinstance(millimetres, int | float) or not NARROWEST <= millimetres <= WIDEST:
        raise InputError(
            f"expected a width of 'single', 'double' or {NARROWEST:.0f} to {WIDEST:.0f} "
            f"millimetres, got {width!r}"
        )
    return millimetres * POINTS_PER_MILLIMETRE


@contextmanager
def default_settings() -> Iterator[None]:
    """Matplotlib's defaults while a figure is drawn; the caller's settings return afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


class Canvas:
    """A figure of a given width that grows downwards as things are drawn on it."""

    def __init__(self, width: float) -> None:
        self.width, self.height = width, 0.0
        self.texts: list[str] = []
        self.figure = Figure(figsize=(width / 72, 1), facecolor="white")
        FigureCanvasAgg(self.figure)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()

    def text(self, x: float, y: float, text: str, size: float, **style: Any) -> None:
        """Text with its baseline at y; `ha` says whether its left, center or right is at x."""
        shown = drawable_text(text)
        self.texts.append(shown)
        style = {"color": INK, "ha": "left", "va": "baseline", "rotation_mode": "anchor"} | style
        font = font_properties(shown, size)
        self.axes.text(x, y, shown, fontproperties=font, parse_math=False, **style)
        self.grow(y + size * 0.3)

    def image(self, colours: NDArray[Any], box: "Box", *, smooth: bool = False) -> None:
        """An array of colours that fills a box."""
        x, y, width, height = box
        interpolation = "bilinear" if smooth else "nearest"
        image = AxesImage(
            self.axes, extent=(x, x + width, y + height, y), interpolation=interpolation
        )
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
        """Curved lines, the last on top."""
        curves = PathCollection(paths, facecolors="none", edgecolors=colours, linewidths=widths)
        curves.set_transform(self.axes.transData)
        curves.set_capstyle("round")
        self.axes.add_collection(curves, autolim=False)

    def grow(self, bottom: float) -> None:
        """Make the figure reach at least this far down."""
        self.height = max(self.height, bottom)

    def finish(self) -> Figure:
        """The figure, as high as what was drawn on it."""
        height = self.height + GAP
        self.figure.set_size_inches(self.width / 72, height / 72)
        self.axes.set_xlim(0, self.width)
        self.axes.set_ylim(height, 0)
        return self.figure


Box = tuple[float, float, float, float]  # x, y, width, height


@cache
def text_width(text: str, size: float) -> float:
    """The width of a text in points."""
    if not text:
        return 0.0
    shown = drawable_text(text)
    width, _, _ = _ruler().get_text_width_height_descent(shown, font_properties(shown, size), False)
    return float(width) / RULER_SCALE


@cache
def _ruler() -> Any:
    """A renderer that only measures texts."""
    canvas: Any = FigureCanvasAgg(Figure(figsize=(0.1, 0.1), dpi=72 * RULER_SCALE))
    return canvas.get_renderer()


def cut_end(text: str, size: float, room: float) -> str:
    """The text without as much of its end as does not fit, with … for it."""
    return (
        text
        if text_width(text, size) <= room
        else _longest_fit(text, size, room, "{}…", slice(None))
    )


def cut_start(text: str, size: float, room: float) -> str:
    """The text without as much of its start as does not fit, with … for it."""
    reverse = slice(None, None, -1)
    return (
        text if text_width(text, size) <= room else _longest_fit(text, size, room, "…{}", reverse)
    )


def _longest_fit(text: str, size: float, room: float, form: str, order: slice) -> str:
    """The longest part that fits with its ellipsis, counted in `order` from start or end."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = text_width(form.format(text[order][:middle][order]), size) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return form.format(text[order][:low][order].strip())
