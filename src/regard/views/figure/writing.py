"""A view drawn on a sheet and written to a file, whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import atomic_file
from regard.views.captions import JOINS, spoken
from regard.views.figure.columns import CAPTION, COLUMNS, GAP, TITLE, Width, points_of
from regard.views.numbers import Grid, Lines, Numbers, numbers
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.wrapping import wrapped

try:
    from matplotlib.figure import Figure

    from regard.views.figure import flow, heads, heatmap, highlight, image
    from regard.views.figure.sheet import Sheet, cut, measured, settings
    from regard.views.figure.svg import with_fonts
except ImportError as error:
    raise InputError(
        f"figures need matplotlib and fontTools ({error}); install them with: "
        "pip install 'regard[figures]'"
    ) from error

DOTS = {".png": 300, ".svg": 600, ".pdf": 600}  # per inch; maps in vector files are pictures too
FEW = 14  # columns of a map that a single column of paper has room for

_VIEWS: dict[str, Callable[[Sheet, Any, Scene, State], None]] = {
    "heads": heads.draw_heads,
    "heatmap": heatmap.draw_heatmap,
    "highlight": highlight.draw_highlight,
    "flow": flow.draw_flow,
    "image": image.draw_image,
    "compare": heatmap.draw_difference,
}


def draw(scene: Scene, state: State, width: Width | None = None) -> Figure:
    """The figure of a view; without a width, a single column if it has room, else a double one."""
    with settings():
        return _sheet(scene, state, width).finished()


def write(scene: Scene, state: State, path: Path, width: Width | None = None) -> None:
    """Write the figure whole or not at all: a failure leaves the file that was there."""
    suffix = path.suffix.lower()
    with settings():
        sheet = _sheet(scene, state, width)
        figure = sheet.finished()
        with atomic_file(path, advice="; write to another place or make room") as temporary:
            with temporary.open("wb") as file:
                dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
                form = suffix.removeprefix(".")
                figure.savefig(file, format=form, dpi=DOTS[suffix], metadata=dated)
            if suffix == ".svg":
                text = with_fonts(temporary.read_text("utf-8"), sheet.texts)
                temporary.write_text(text, "utf-8")


def _sheet(scene: Scene, state: State, width: Width | None) -> Sheet:
    said = _finding_said(scene, state)
    shown = numbers(scene, state)
    sheet = Sheet(points_of(_usual(shown) if width is None else width))
    if scene.title:
        room = sheet.width - 2 * GAP
        sheet.text(sheet.width / 2, GAP + TITLE, cut(scene.title, TITLE, room), TITLE, ha="center")
    _VIEWS[state.view](sheet, shown, scene, state)
    y = sheet.height + 1.5 * GAP + CAPTION
    room = sheet.width - 2 * GAP
    caption = said + JOINS[state.language or "en"] + shown.caption if said else shown.caption
    for line in wrapped(caption, room, lambda text: measured(text, CAPTION)):
        sheet.text(GAP, y, line, CAPTION)
        y += CAPTION * 1.35
    return sheet


def _finding_said(scene: Scene, state: State) -> str:
    """The sentence of the finding that a figure of a report shows; "" of other scenes."""
    if scene.findings is None:
        return ""
    if state.finding is None or state.finding >= len(scene.findings):
        raise InputError(
            "no finding of this report has a picture to draw; save the report as .html, or print it"
        )
    return spoken(scene.findings[state.finding], state.language).sentence


def _usual(shown: Numbers) -> float:
    """The column that has room for what is shown."""
    small = isinstance(shown, Grid) and len(shown.columns) <= FEW
    small |= isinstance(shown, Lines) and len(shown.levels) == 2
    return COLUMNS["single" if small else "double"]
