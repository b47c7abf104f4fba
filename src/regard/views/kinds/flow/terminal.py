"""Flow in the terminal: the heaviest lines as a table."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from regard.text import say
from regard.views import colours
from regard.views.kinds.flow.numbers import FlowLine, FlowNumbers
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.style import TerminalStyle

MOST_LINES = 24
BAR_WIDTH = 24


def draw_flow(
    numbers: FlowNumbers, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text | Table]:
    """From where to where, the weight, and a bar as long; heads and layers by their numbers."""
    heaviest = numbers.lines[::-1][:MOST_LINES]
    several = len({line.head for line in numbers.lines}) > 1 or len(numbers.levels) > 2
    bar_width = max(4, min(BAR_WIDTH, width // 4))
    largest = heaviest[0].weight if heaviest else 1.0
    rows: list[list[str | Text]] = []
    for line in heaviest:
        source, target = _line_ends(line, numbers, state)
        bar = Text(style.bar(line.weight / largest, bar_width), style=_bar_colour(line, style))
        row: list[str | Text] = [source, style.arrow, target, style.percent(line.weight), bar]
        name = Text(style.printable(_line_name(line, numbers, scene, state)))
        rows.append([name, *row] if several else row)
    # The columns of the layer or head, the arrow, the percent and the bar; tokens share the rest.
    other_columns = bar_width + 14 + (9 if several else 0)
    yield style.table(rows, ("r" if several else "") + "rclrl", (width - other_columns) // 2)
    if len(numbers.lines) > MOST_LINES:
        yield Text("..." if style.ascii_only else "…", style="dim")


def _line_ends(line: FlowLine, numbers: FlowNumbers, state: ViewState) -> tuple[str, str]:
    """The tokens of a line: query and key; over layers and time, the key comes first."""
    start = numbers.levels[line.level][line.start].text
    stop = numbers.levels[line.level + 1][line.stop].text
    return (start, stop) if state.span == "layers" else (stop, start)


def _line_name(line: FlowLine, numbers: FlowNumbers, scene: Scene, state: ViewState) -> str:
    """The layer or head that a line is of."""
    if len(numbers.levels) > 2:
        return f"{say('control.layer', state.language)} {len(numbers.levels) - 2 - line.level}"
    head_numbers = scene.trace(state.trace).site(state.site).numbers
    head = line.head or 0
    number = head if head_numbers is None else head_numbers[head]
    return f"{say('control.head', state.language)} {number}"


def _bar_colour(line: FlowLine, style: TerminalStyle) -> str:
    """The colour of a line's bar: that of its head, blue for the mean over heads, or none."""
    if not style.coloured:
        return ""
    return "blue" if line.head is None else colours.head_colour(line.head)
