"""Flow on paper: columns of tokens, and lines between them as thick as their weights."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.colors import to_rgba
from matplotlib.path import Path

from regard.text import say
from regard.views import colours
from regard.views.figure.canvas import (
    GAP,
    INK,
    LABEL,
    MIDDLE,
    PALE,
    SMALL,
    TALLEST,
    Canvas,
    cut_end,
    text_width,
)
from regard.views.figure.map_panel import LONGEST_LABEL
from regard.views.kinds.flow.numbers import FlowLine, FlowNumbers
from regard.views.labelled_map import Label
from regard.views.scene import Scene
from regard.views.state import ViewState

TOKEN_PITCH = 11.0  # between the middles of neighbouring tokens
WIDEST_GAP = 230.0  # between two columns of tokens
THINNEST, THICKEST = 0.25, 1.9  # lines
SINGLE_COLOUR = "#1f6fb2"  # of lines that are all of one head, or of the mean

Heights = dict[int, float]  # by row: the height of a token in points


def draw_flow(canvas: Canvas, numbers: FlowNumbers, scene: Scene, state: ViewState) -> None:
    """Queries on the left and keys on the right; over layers and time, sources on the left."""
    levels = numbers.levels
    sources_left = state.span != "layers"
    ends = (levels[-1], levels[0]) if sources_left else (levels[0], levels[-1])
    rooms = [
        min(LONGEST_LABEL, max((text_width(label.text, LABEL) for label in end), default=0))
        for end in ends
    ]
    top = _draw_head_key(canvas, numbers, scene, state) + GAP
    if len(levels) > 2:
        top += LABEL + GAP
    rows = _token_rows(numbers)
    pitch = min(
        TOKEN_PITCH, TALLEST / max(1.0, *(max(column.values(), default=0) + 1 for column in rows))
    )
    between = canvas.width - sum(rooms) - 6 * GAP
    reach = min(between, WIDEST_GAP * (len(levels) - 1))
    left = (canvas.width - sum(rooms) - reach) / 2 + rooms[0]
    step = reach / (len(levels) - 1)
    columns = [left + step * index for index in range(len(levels))]
    columns = columns[::-1] if sources_left else columns
    heights = [{row: top + (at + 0.5) * pitch for row, at in column.items()} for column in rows]
    _draw_lines(canvas, numbers.lines, columns, (heights, pitch), _line_colours(numbers))
    with_lines = _tokens_with_lines(numbers)
    for x, end, side in ((left, -sources_left, "right"), (left + reach, sources_left - 1, "left")):
        _draw_labels(canvas, levels[end], x, (heights[end], pitch), (side, with_lines[end]))
    if len(levels) > 2:
        _draw_levels(canvas, numbers, columns, (heights, pitch))


def _token_rows(numbers: FlowNumbers) -> list[dict[int, float]]:
    """The row of each token of each column; of too many tokens, only those that lines meet."""
    if max(map(len, numbers.levels)) * TOKEN_PITCH <= TALLEST:
        return [{row: float(row) for row in range(len(level))} for level in numbers.levels]
    with_lines = [sorted(tokens) for tokens in _tokens_with_lines(numbers)]
    if len(with_lines) > 2:  # a token stands at one height in all layers
        with_lines = [sorted({row for tokens in with_lines for row in tokens})] * len(with_lines)
    positions = []
    for tokens in with_lines:
        at, rows = 0.0, dict[int, float]()
        for before, row in zip([-1, *tokens], tokens, strict=False):
            at += 0.5 if row > before + 1 and rows else 0.0  # a gap where tokens are left out
            rows[row] = at
            at += 1
        positions.append(rows)
    return positions


def _line_colours(numbers: FlowNumbers) -> dict[int | None, str]:
    """The colour of each head's lines; one colour for all if there is one head."""
    heads = {line.head for line in numbers.lines}
    if len(heads) < 2:
        return dict.fromkeys(heads, SINGLE_COLOUR)
    return {head: colours.head_colour(head or 0) for head in heads}


def _draw_head_key(canvas: Canvas, numbers: FlowNumbers, scene: Scene, state: ViewState) -> float:
    """A key to the colours of heads; the height at which it ends."""
    line_colours = _line_colours(numbers)
    heads = sorted(head for head in line_colours if head is not None)
    y = canvas.height + GAP
    if len(line_colours) < 2:
        return y
    x = GAP
    name = say("control.head", state.language)
    head_numbers = scene.trace(state.trace).site(state.site).numbers
    canvas.text(x, y + LABEL, name, LABEL, color=PALE)
    x += text_width(name, LABEL) + GAP
    for head in heads:
        number = str(head if head_numbers is None else head_numbers[head])
        width = text_width(number, LABEL) + 11
        if x + width > canvas.width - GAP:
            x, y = GAP, y + LABEL + GAP
        canvas.box((x, y + LABEL * 0.4, 6, 2), facecolor=line_colours[head])
        canvas.text(x + 7.5, y + LABEL, number, LABEL)
        x += width
    return y + LABEL


def _draw_lines(
    canvas: Canvas,
    lines: Sequence[FlowLine],
    columns: Sequence[float],
    rows: tuple[Sequence[Heights], float],
    colour: dict[int | None, str],
) -> None:
    """Curves between the columns of tokens, as thick and opaque as their weights."""
    heights, pitch = rows
    largest = max((line.weight for line in lines), default=1.0)
    paths, inks, widths = [], [], []
    for line in lines:
        x, end = columns[line.level], columns[line.level + 1]
        inset = GAP / 2 if end > x else -GAP / 2
        x, end = x + inset, end - inset
        y, stop = heights[line.level][line.start], heights[line.level + 1][line.stop]
        middle = (x + end) / 2
        points = [(x, y), (middle, y), (middle, stop), (end, stop)]
        paths.append(Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]))
        share = line.weight / largest
        inks.append(to_rgba(colour[line.head], 0.2 + 0.75 * share))
        widths.append((THINNEST + (THICKEST - THINNEST) * share) * min(1.0, max(0.35, pitch / 8)))
    canvas.curves(paths, inks, widths)


def _tokens_with_lines(numbers: FlowNumbers) -> list[dict[int, float]]:
    """For each column, the tokens that lines meet, with the heaviest weight of each."""
    heaviest: list[dict[int, float]] = [{} for _ in numbers.levels]
    for line in numbers.lines:  # the heaviest come last
        heaviest[line.level][line.start] = line.weight
        heaviest[line.level + 1][line.stop] = line.weight
    return heaviest


def _draw_labels(
    canvas: Canvas,
    labels: tuple[Label, ...],
    x: float,
    rows: tuple[Heights, float],
    end: tuple[str, dict[int, float]],
) -> None:
    """All labels, or where they would overlap, those of the heaviest lines."""
    (heights, pitch), (side, with_lines) = rows, end
    away = -GAP / 2 if side == "right" else GAP / 2
    for index in _labels_without_overlap(heights, with_lines):
        label, y = labels[index], heights[index]
        ink = PALE if label.special or index not in with_lines else INK
        shown_text = cut_end(label.text, LABEL, LONGEST_LABEL)
        canvas.text(x + away, y + MIDDLE * LABEL, shown_text, LABEL, color=ink, ha=side)
    canvas.grow(max(heights.values(), default=0.0) + pitch / 2)


def _labels_without_overlap(heights: Heights, with_lines: dict[int, float]) -> list[int]:
    """Which labels to write so that none overlaps another."""
    apart = LABEL + 1
    rows = sorted(heights)
    if all(heights[lower] - heights[upper] >= apart for upper, lower in pairwise(rows)):
        return rows
    chosen: list[int] = []
    for index in sorted(with_lines, key=lambda row: -with_lines[row]):
        if all(abs(heights[index] - heights[other]) >= apart for other in chosen):
            chosen.append(index)
    return chosen


def _draw_levels(
    canvas: Canvas,
    numbers: FlowNumbers,
    columns: Sequence[float],
    rows: tuple[Sequence[Heights], float],
) -> None:
    """The numbers of layers above the columns, and a dot where lines meet."""
    heights, pitch = rows
    last = len(columns) - 1
    top = min((min(column.values()) for column in heights if column), default=0.0) - pitch / 2
    for index, x in enumerate(columns[:-1]):
        middle = (x + columns[index + 1]) / 2
        canvas.text(middle, top - GAP, str(last - 1 - index), SMALL, color=PALE, ha="center")
    met = {(line.level, line.start) for line in numbers.lines}
    met |= {(line.level + 1, line.stop) for line in numbers.lines}
    radius = min(1.3, pitch / 5)
    for level, row in met:
        x, y = columns[level], heights[level][row]
        box = (x - radius, y - radius, 2 * radius, 2 * radius)
        if 0 < level < last:
            canvas.pill(box, PALE, radius)
