"""Flow on paper: columns of tokens, and lines between them as thick as their weights."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.colors import to_rgba
from matplotlib.path import Path

from regard.text import say
from regard.views import colours
from regard.views.figure.boards import LONGEST
from regard.views.figure.columns import GAP, LABEL, SMALL, TALLEST
from regard.views.figure.sheet import INK, MIDDLE, PALE, Sheet, cut, measured
from regard.views.numbers import Label, Line, Lines
from regard.views.scene import Scene
from regard.views.state import State

PITCH = 11.0  # between tokens
REACH = 230.0  # the widest gap that lines cross between two columns
THIN, THICK = 0.25, 1.9
PLAIN = "#1f6fb2"

Heights = dict[int, float]


def draw_flow(sheet: Sheet, shown: Lines, scene: Scene, state: State) -> None:
    """Queries on the left and keys on the right; over layers and time, sources on the left."""
    levels = shown.levels
    turned = state.span != "layers"
    ends = (levels[-1], levels[0]) if turned else (levels[0], levels[-1])
    rooms = [min(LONGEST, max((measured(e.text, LABEL) for e in end), default=0)) for end in ends]
    top = _draw_heads(sheet, shown, scene, state) + GAP
    if len(levels) > 2:
        top += LABEL + GAP
    rows = _rows(shown)
    pitch = min(PITCH, TALLEST / max(1.0, *(max(each.values(), default=0) + 1 for each in rows)))
    between = sheet.width - sum(rooms) - 6 * GAP
    reach = min(between, REACH * (len(levels) - 1))
    left = (sheet.width - sum(rooms) - reach) / 2 + rooms[0]
    step = reach / (len(levels) - 1)
    places = [left + step * index for index in range(len(levels))]
    places = places[::-1] if turned else places
    heights = [{row: top + (at + 0.5) * pitch for row, at in each.items()} for each in rows]
    _draw_lines(sheet, shown.lines, places, (heights, pitch), _colour_of(shown))
    touched = _touched(shown)
    for x, end, side in ((left, -turned, "right"), (left + reach, turned - 1, "left")):
        _draw_labels(sheet, levels[end], x, (heights[end], pitch), (side, touched[end]))
    if len(levels) > 2:
        _draw_levels(sheet, shown, places, (heights, pitch))


def _rows(shown: Lines) -> list[dict[int, float]]:
    """Where the tokens of each column stand, in lines; of too many, only those that lines meet."""
    if max(map(len, shown.levels)) * PITCH <= TALLEST:
        return [{row: float(row) for row in range(len(each))} for each in shown.levels]
    touched = [sorted(each) for each in _touched(shown)]
    if len(touched) > 2:  # a token stands at one height in all layers
        touched = [sorted({row for each in touched for row in each})] * len(touched)
    found = []
    for each in touched:
        at, rows = 0.0, dict[int, float]()
        for before, row in zip([-1, *each], each, strict=False):
            at += 0.5 if row > before + 1 and rows else 0.0  # some are left out
            rows[row] = at
            at += 1
        found.append(rows)
    return found


def _colour_of(shown: Lines) -> dict[int | None, str]:
    heads = {line.head for line in shown.lines}
    if len(heads) < 2:
        return dict.fromkeys(heads, PLAIN)
    return {head: colours.head_colour(head or 0) for head in heads}


def _draw_heads(sheet: Sheet, shown: Lines, scene: Scene, state: State) -> float:
    """The heads that have lines, each in its colour; where they end."""
    found = _colour_of(shown)
    heads = sorted(head for head in found if head is not None)
    y = sheet.height + GAP
    if len(found) < 2:
        return y
    x = GAP
    name = say("control.head", state.language)
    numbers = scene.trace(state.trace).site(state.site).numbers
    sheet.text(x, y + LABEL, name, LABEL, color=PALE)
    x += measured(name, LABEL) + GAP
    for head in heads:
        text = str(head if numbers is None else numbers[head])
        width = measured(text, LABEL) + 11
        if x + width > sheet.width - GAP:
            x, y = GAP, y + LABEL + GAP
        sheet.box((x, y + LABEL * 0.4, 6, 2), facecolor=found[head])
        sheet.text(x + 7.5, y + LABEL, text, LABEL)
        x += width
    return y + LABEL


def _draw_lines(
    sheet: Sheet,
    lines: Sequence[Line],
    places: Sequence[float],
    rows: tuple[Sequence[Heights], float],
    colour: dict[int | None, str],
) -> None:
    heights, pitch = rows
    largest = max((line.weight for line in lines), default=1.0)
    paths, inks, widths = [], [], []
    for line in lines:
        x, end = places[line.level], places[line.level + 1]
        inset = GAP / 2 if end > x else -GAP / 2
        x, end = x + inset, end - inset
        y, stop = heights[line.level][line.start], heights[line.level + 1][line.stop]
        middle = (x + end) / 2
        points = [(x, y), (middle, y), (middle, stop), (end, stop)]
        paths.append(Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]))
        share = line.weight / largest
        inks.append(to_rgba(colour[line.head], 0.2 + 0.75 * share))
        widths.append((THIN + (THICK - THIN) * share) * min(1.0, max(0.35, pitch / 8)))
    sheet.curves(paths, inks, widths)


def _touched(shown: Lines) -> list[dict[int, float]]:
    """For each column of tokens, those that lines meet, with the heaviest weight of each."""
    found: list[dict[int, float]] = [{} for _ in shown.levels]
    for line in shown.lines:  # the heaviest come last
        found[line.level][line.start] = line.weight
        found[line.level + 1][line.stop] = line.weight
    return found


def _draw_labels(
    sheet: Sheet,
    labels: tuple[Label, ...],
    x: float,
    rows: tuple[Heights, float],
    end: tuple[str, dict[int, float]],
) -> None:
    """All labels, or where they would overlap, those of the heaviest lines."""
    (heights, pitch), (side, touched) = rows, end
    away = -GAP / 2 if side == "right" else GAP / 2
    for index in _chosen(heights, touched):
        label, y = labels[index], heights[index]
        ink = PALE if label.special or index not in touched else INK
        text = cut(label.text, LABEL, LONGEST)
        sheet.text(x + away, y + MIDDLE * LABEL, text, LABEL, color=ink, ha=side)
    sheet.grow(max(heights.values(), default=0.0) + pitch / 2)


def _chosen(heights: Heights, touched: dict[int, float]) -> list[int]:
    """Which labels to write so that none overlaps another."""
    apart = LABEL + 1
    rows = sorted(heights)
    if all(heights[two] - heights[one] >= apart for one, two in pairwise(rows)):
        return rows
    found: list[int] = []
    for index in sorted(touched, key=lambda each: -touched[each]):
        if all(abs(heights[index] - heights[each]) >= apart for each in found):
            found.append(index)
    return found


def _draw_levels(
    sheet: Sheet, shown: Lines, places: Sequence[float], rows: tuple[Sequence[Heights], float]
) -> None:
    """The numbers of layers above the columns, and a dot where lines meet."""
    heights, pitch = rows
    last = len(places) - 1
    top = min((min(each.values()) for each in heights if each), default=0.0) - pitch / 2
    for index, x in enumerate(places[:-1]):
        middle = (x + places[index + 1]) / 2
        sheet.text(middle, top - GAP, str(last - 1 - index), SMALL, color=PALE, ha="center")
    met = {(line.level, line.start) for line in shown.lines}
    met |= {(line.level + 1, line.stop) for line in shown.lines}
    radius = min(1.3, pitch / 5)
    for level, row in met:
        x, y = places[level], heights[level][row]
        box = (x - radius, y - radius, 2 * radius, 2 * radius)
        if 0 < level < last:
            sheet.pill(box, PALE, radius)
