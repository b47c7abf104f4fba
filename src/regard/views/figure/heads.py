"""The overview on paper: a small map for every head, a row for every site."""

from regard.text import say
from regard.views import colours
from regard.views.figure.columns import GAP, LABEL, SMALL, TALLEST
from regard.views.figure.sheet import INK, MIDDLE, PALE, RULE, Sheet, cut, measured
from regard.views.numbers import Thumb, Thumbs
from regard.views.scene import Scene, Site
from regard.views.state import State

LARGEST = 60.0  # the side of a small map
SPACE = 3.0


def draw_heads(sheet: Sheet, shown: Thumbs, scene: Scene, state: State) -> None:
    """Layers from above down, heads from left to right."""
    traced = scene.trace(state.trace)
    names = [site_name(traced.site(row[0].site), state) for row in shown.rows]
    left = GAP + max(measured(cut(name, LABEL, 80), LABEL) for name in names) + GAP
    count = max(map(len, shown.rows))
    badged = any(thumb.badges for row in shown.rows for thumb in row)
    extra = SMALL + 1 if badged else 0.0
    side = min(LARGEST, (sheet.width - left - GAP) / count - SPACE)
    side = min(side, max(6.0, TALLEST / len(shown.rows) - SPACE - extra))
    top = sheet.height + GAP + SMALL + 2
    for column in range(count):
        middle = left + column * (side + SPACE) + side / 2
        sheet.text(middle, top - 2, str(column), SMALL, color=PALE, ha="center")
    for name, row in zip(names, shown.rows, strict=True):
        text = cut(name, LABEL, 80)
        sheet.text(left - GAP, top + side / 2 + MIDDLE * LABEL, text, LABEL, ha="right")
        for column, thumb in enumerate(row):
            _draw_thumb(sheet, thumb, left + column * (side + SPACE), (top, side))
        top += side + SPACE + extra


def _draw_thumb(sheet: Sheet, thumb: Thumb, x: float, place: tuple[float, float]) -> None:
    top, side = place
    box = (x, top, side, side)
    sheet.image(colours.light(thumb.shades), box)
    sheet.box(box, fill=False, edgecolor=RULE, linewidth=0.4)
    if thumb.badges:
        text = cut(" ".join(thumb.badges), SMALL, side + SPACE)
        sheet.text(x + side / 2, top + side + SMALL, text, SMALL, color=INK, ha="center")


def site_name(site: Site, state: State) -> str:
    """The kind of a site and which of its kind it is; an aggregate by its own name."""
    if site.layer is None:
        return site.name
    return f"{say(f'kind.{site.kind}', state.language)} {site.layer}"
