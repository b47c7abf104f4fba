"""A view as something that rich can print: the picture, then its caption."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from regard.views.numbers import numbers
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.terminal import findings, links, maps, pictures, words
from regard.views.terminal.ink import Ink
from regard.views.wrapping import wrapped

_VIEWS: dict[str, Callable[[Any, Scene, State, Ink, int], Iterator[Text | Table]]] = {
    "heads": pictures.draw_heads,
    "heatmap": maps.draw_heatmap,
    "highlight": words.draw_highlight,
    "flow": links.draw_flow,
    "image": pictures.draw_image,
    "compare": maps.draw_difference,
}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A view to be printed; what it looks like depends on who prints it."""

    scene: Scene
    state: State

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text | Table]:
        ink = Ink.of(console, options, self.state)
        if self.scene.title:
            yield Text(ink.text(self.scene.title), style="bold")
        if self.scene.findings is not None:
            yield from findings.draw_findings(self.scene, self.state, ink, options.max_width)
            return
        shown = numbers(self.scene, self.state)
        yield from _VIEWS[self.state.view](
            shown, self.scene, self.state, ink, max(12, options.max_width)
        )
        room = options.max_width
        for line in wrapped(ink.text(shown.caption), room, cell_len):
            yield Text(line, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(12, options.max_width)


def render(scene: Scene, state: State) -> Drawing:
    """The view as a renderable of rich."""
    return Drawing(scene, state)
