"""Flow in the terminal: the heaviest lines as a table."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from regard.text import say
from regard.views import colours
from regard.views.numbers import Line, Lines
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.terminal.ink import Ink
from regard.views.terminal.tables import table_of

MOST = 24
BAR = 24


def draw_flow(
    shown: Lines, scene: Scene, state: State, ink: Ink, width: int
) -> Iterator[Text | Table]:
    """From where to where, the weight, and a bar as long; heads and layers by their numbers."""
    heaviest = shown.lines[::-1][:MOST]
    several = len({line.head for line in shown.lines}) > 1 or len(shown.levels) > 2
    bar = max(4, min(BAR, width // 4))
    largest = heaviest[0].weight if heaviest else 1.0
    rows: list[list[str | Text]] = []
    for line in heaviest:
        ends = _ends(line, shown, state)
        share = Text(ink.bar(line.weight / largest, bar), style=_colour(line, ink))
        told: list[str | Text] = [
            ends[0],
            ink.arrow,
            ends[1],
            ink.percent(line.weight),
            share,
        ]
        number = Text(ink.text(_number(line, shown, scene, state)))
        rows.append([number, *told] if several else told)
    taken = bar + 14 + (9 if several else 0)
    yield table_of(rows, ink, ("r" if several else "") + "rclrl", (width - taken) // 2)
    if len(shown.lines) > MOST:
        yield Text("..." if ink.plain else "…", style="dim")


def _ends(line: Line, shown: Lines, state: State) -> tuple[str, str]:
    """Its tokens: from a query to its key; over layers and time, from the source."""
    start = shown.levels[line.level][line.start].text
    stop = shown.levels[line.level + 1][line.stop].text
    return (start, stop) if state.span == "layers" else (stop, start)


def _number(line: Line, shown: Lines, scene: Scene, state: State) -> str:
    """Which layer or head a line is of."""
    if len(shown.levels) > 2:
        return f"{say('control.layer', state.language)} {len(shown.levels) - 2 - line.level}"
    numbers = scene.trace(state.trace).site(state.site).numbers
    head = line.head or 0
    return f"{say('control.head', state.language)} {head if numbers is None else numbers[head]}"


def _colour(line: Line, ink: Ink) -> str:
    if not ink.coloured:
        return ""
    return "blue" if line.head is None else colours.head_colour(line.head)
