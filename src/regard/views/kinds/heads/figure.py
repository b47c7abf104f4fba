"""The overview on paper: a small map for every head, a row for every site."""

from regard.views import colours
from regard.views.captions import site_title
from regard.views.figure.canvas import (
    GAP,
    INK,
    LABEL,
    MIDDLE,
    PALE,
    RULE,
    SMALL,
    TALLEST,
    Canvas,
    cut_end,
    text_width,
)
from regard.views.kinds.heads.numbers import HeadsNumbers, Thumbnail
from regard.views.scene import Scene
from regard.views.state import ViewState

LARGEST_SIDE, SMALLEST_SIDE = 60.0, 6.0  # of a thumbnail
SPACE = 3.0  # between thumbnails
NAME_WIDTH = 80.0  # most points of the name of a site


def draw_heads(canvas: Canvas, numbers: HeadsNumbers, scene: Scene, state: ViewState) -> None:
    """Sites from top to bottom, heads from left to right."""
    trace = scene.trace(state.trace)
    sites = [trace.site(row[0].site) for row in numbers.rows]
    names = [cut_end(site_title(site, state.language), LABEL, NAME_WIDTH) for site in sites]
    left = GAP + max(text_width(name, LABEL) for name in names) + GAP
    count = max(map(len, numbers.rows))
    badged = any(thumbnail.badges for row in numbers.rows for thumbnail in row)
    badge_height = SMALL + 1 if badged else 0.0
    side = min(LARGEST_SIDE, (canvas.width - left - GAP) / count - SPACE)
    side = min(side, max(SMALLEST_SIDE, TALLEST / len(numbers.rows) - SPACE - badge_height))
    top = canvas.height + GAP + SMALL + 2
    for column in range(count):
        middle = left + column * (side + SPACE) + side / 2
        canvas.text(middle, top - 2, str(column), SMALL, color=PALE, ha="center")
    for name, row in zip(names, numbers.rows, strict=True):
        canvas.text(left - GAP, top + side / 2 + MIDDLE * LABEL, name, LABEL, ha="right")
        for column, thumbnail in enumerate(row):
            _draw_thumbnail(canvas, thumbnail, left + column * (side + SPACE), (top, side))
        top += side + SPACE + badge_height


def _draw_thumbnail(
    canvas: Canvas, thumbnail: Thumbnail, x: float, place: tuple[float, float]
) -> None:
    """One thumbnail with its frame and its badges."""
    top, side = place
    box = (x, top, side, side)
    canvas.image(colours.light(thumbnail.shades), box)
    canvas.box(box, fill=False, edgecolor=RULE, linewidth=0.4)
    if thumbnail.badges:
        text = cut_end(" ".join(thumbnail.badges), SMALL, side + SPACE)
        canvas.text(x + side / 2, top + side + SMALL, text, SMALL, color=INK, ha="center")
