"""Highlighted text in the terminal, and the words of most weight."""

from collections.abc import Iterator

from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.text import say
from regard.views.kinds.highlight.numbers import HighlightNumbers
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.style import TerminalStyle

BAR_WIDTH = 20


def draw_highlight(
    numbers: HighlightNumbers, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text | Table]:
    """Words on their colours, marked ones underlined.

    Without colours each stands after a character as dense as its shade, marked ones in brackets.
    """
    line = Text(overflow="fold")
    for index, word in enumerate(numbers.words):
        line.append(" " if word.spaced and index else "")
        if style.coloured:
            shade = style.shade_style(word.shade)
            underlined = shade + Style(underline=True) if word.marked else shade
            line.append(style.printable(word.text), underlined)
        else:
            mark, text = style.shade_character(word.shade).strip(), style.printable(word.text)
            line.append(mark + (f"[{text}]" if word.marked else text))
    yield line
    yield Text("")
    if not numbers.top:
        return
    yield Text(style.printable(say("top.words", state.language)), style="dim")
    bar_width = max(4, min(BAR_WIDTH, width // 3))
    largest = numbers.top[0][1]
    colour = "blue" if style.coloured else ""
    rows: list[list[str | Text]] = [
        [unit, style.percent(weight), Text(style.bar(weight / largest, bar_width), style=colour)]
        for unit, weight in numbers.top
    ]
    yield style.table(rows, "lrl", width - bar_width - 9)
