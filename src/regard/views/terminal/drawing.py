"""A view as something that rich can print: the picture, then its caption."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from regard.views.kinds import KINDS
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.findings import draw_findings
from regard.views.terminal.style import TerminalStyle
from regard.views.wrapping import wrap_text

NARROWEST = 12  # columns of a terminal that a picture is drawn for


@dataclass(frozen=True, eq=False)
class TerminalView:
    """A view to be printed; its size and colours depend on the console that prints it."""

    scene: Scene
    state: ViewState

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text | Table]:
        style = TerminalStyle.of(console, options, self.state)
        width = options.max_width
        if self.scene.title:
            yield Text(style.printable(self.scene.title), style="bold")
        if self.scene.findings is not None:
            yield from draw_findings(self.scene, self.state, style, width)
            return
        kind = KINDS[self.state.view]
        numbers = kind.numbers(self.scene, self.state)
        draw = kind.terminal_drawing()
        yield from draw(numbers, self.scene, self.state, style, max(NARROWEST, width))
        for line in wrap_text(style.printable(numbers.caption), width, cell_len):
            yield Text(line, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(NARROWEST, options.max_width)


def render(scene: Scene, state: ViewState) -> TerminalView:
    """The view as a renderable of rich."""
    return TerminalView(scene, state)
