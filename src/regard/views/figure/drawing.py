"""A view drawn as a figure and written to a file, whole or not at all."""

from pathlib import Path

from regard.errors import InputError
from regard.files import atomic_file
from regard.views.captions import SENTENCE_GAP, finding_text
from regard.views.kinds import KINDS
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.wrapping import wrap_text

try:
    from matplotlib.figure import Figure

    from regard.views.figure.canvas import (
        CAPTION,
        COLUMNS,
        GAP,
        TITLE,
        Canvas,
        Width,
        cut_end,
        default_settings,
        text_width,
        width_in_points,
    )
    from regard.views.figure.fonts import embed_fonts
except ImportError as error:
    raise InputError(
        f"figures need matplotlib and fontTools ({error}); install them with: "
        "pip install 'regard[figures]'"
    ) from error

# Dots per inch; in vector files the maps are images too.
DOTS_PER_INCH = {".png": 300, ".svg": 600, ".pdf": 600}
LINE_HEIGHT = CAPTION * 1.35


def draw(scene: Scene, state: ViewState, width: Width | None = None) -> Figure:
    """The figure of a view; without a width, a single column if it has room, else a double one."""
    with default_settings():
        return _draw_canvas(scene, state, width).finish()


def write(scene: Scene, state: ViewState, path: Path, width: Width | None = None) -> None:
    """Write the figure as PNG, SVG or PDF, whole or not at all."""
    suffix = path.suffix.lower()
    with default_settings():
        canvas = _draw_canvas(scene, state, width)
        figure = canvas.finish()
        with atomic_file(path, advice="; write to another place or make room") as temporary:
            with temporary.open("wb") as file:
                # Without a date the same view gives the same bytes.
                undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
                form = suffix.removeprefix(".")
                figure.savefig(file, format=form, dpi=DOTS_PER_INCH[suffix], metadata=undated)
            if suffix == ".svg":
                drawing = embed_fonts(temporary.read_text("utf-8"), canvas.texts)
                temporary.write_text(drawing, "utf-8")


def _draw_canvas(scene: Scene, state: ViewState, width: Width | None) -> Canvas:
    """The title, the picture and the caption of a view, from top to bottom."""
    sentence = _finding_sentence(scene, state)
    kind = KINDS[state.view]
    numbers = kind.numbers(scene, state)
    if width is None:
        # A kind whose numbers do not say so may need all the width there is.
        single = getattr(numbers, "fits_single_column", False)
        width = COLUMNS["single" if single else "double"]
    canvas = Canvas(width_in_points(width))
    room = canvas.width - 2 * GAP
    if scene.title:
        title = cut_end(scene.title, TITLE, room)
        canvas.text(canvas.width / 2, GAP + TITLE, title, TITLE, ha="center")
    kind.figure_drawing()(canvas, numbers, scene, state)
    y = canvas.height + 1.5 * GAP + CAPTION
    gap = SENTENCE_GAP[state.language or "en"]
    caption = sentence + gap + numbers.caption if sentence else numbers.caption
    for line in wrap_text(caption, room, lambda text: text_width(text, CAPTION)):
        canvas.text(GAP, y, line, CAPTION)
        y += LINE_HEIGHT
    return canvas


def _finding_sentence(scene: Scene, state: ViewState) -> str:
    """The sentence of the finding that a figure of a report shows; "" of other scenes."""
    if scene.findings is None:
        return ""
    if state.finding is None or state.finding >= len(scene.findings):
        raise InputError(
            "no finding of this report has a picture to draw; save the report as .html, or print it"
        )
    return finding_text(scene.findings[state.finding], state.language).sentence
