"""Highlighted text in the terminal, and the words of most weight."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from regard.text import say
from regard.views.numbers import Shades
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.terminal.ink import Ink
from regard.views.terminal.tables import table_of

BAR = 20


def draw_highlight(
    shown: Shades, scene: Scene, state: State, ink: Ink, width: int
) -> Iterator[Text | Table]:
    """Words on their colours; without colours, each after a character as dense as its shade."""
    line = Text(overflow="fold")
    for index, word in enumerate(shown.words):
        line.append(" " if word.spaced and index else "")
        if ink.coloured:
            line.append(ink.text(word.text), ink.style(word.shade))
        else:
            line.append(ink.shade(word.shade).strip() + ink.text(word.text))
    yield line
    yield Text("")
    if not shown.top:
        return
    yield Text(ink.text(say("top.words", state.language)), style="dim")
    bar = max(4, min(BAR, width // 3))
    largest = shown.top[0][1]
    rows: list[list[str | Text]] = [
        [text, ink.percent(weight), _bar(ink, weight / largest, bar)] for text, weight in shown.top
    ]
    yield table_of(rows, ink, "lrl", width - bar - 9)


def _bar(ink: Ink, share: float, width: int) -> Text:
    return Text(ink.bar(share, width), style="blue" if ink.coloured else "")
