"""Highlighted text on paper: words on their shades, and those of most weight with bars."""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.text import say
from regard.views import colours
from regard.views.captions import percent
from regard.views.figure.columns import GAP, LABEL, SMALL, TITLE
from regard.views.figure.sheet import INK, PALE, Sheet, cut, measured
from regard.views.numbers import Shade, Shades
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.wrapping import atoms, parted

LINE = TITLE * 1.75
BETWEEN = 0.8  # two words that no space parts
LIST = 150.0  # the width of the list of words
BESIDE = 360.0  # a figure as wide as this has the list beside the text


@dataclass(frozen=True)
class Part:
    """Some characters of one word on one line."""

    word: Shade
    text: str
    x: float
    line: int
    width: float


def draw_highlight(sheet: Sheet, shown: Shades, scene: Scene, state: State) -> None:
    """The text, and the list of its words of most weight."""
    beside = sheet.width >= BESIDE and bool(shown.top)
    top = sheet.height + GAP
    room = sheet.width - 2 * GAP - (LIST + 3 * GAP if beside else 0)
    for part in placed(shown.words, room):
        y = top + part.line * LINE
        colour = colours.light(part.word.shade)
        sheet.pill((GAP + part.x - 0.6, y, part.width + 1.2, LINE - 2.5), colour / 255)
        ink = "white" if colours.is_dim(colour) else INK
        sheet.text(GAP + part.x, y + LINE * 0.64, part.text, TITLE, color=ink)
    left = sheet.width - LIST - GAP if beside else GAP
    _draw_top(sheet, shown, (left, top if beside else sheet.height + 2 * GAP), state)


def placed(words: tuple[Shade, ...], room: float) -> Iterator[Part]:
    """The words in lines; the parts of a long one as wide as the lines have room."""
    x, line = 0.0, 0
    space = _wide("n n") - _wide("nn")
    for word in words:
        x += space if word.spaced and x else 0.0
        run = ""
        for piece in _pieces(word.text, room):
            if x + _wide(run + piece) > room and (run or x):
                if run:
                    yield Part(word, run, x, line, _wide(run))
                run, x, line = "", 0.0, line + 1
                piece = piece.lstrip()
            run += piece
        if run:
            yield Part(word, run, x, line, _wide(run))
        x += _wide(run) + BETWEEN


def _pieces(text: str, room: float) -> list[str]:
    """The parts of a word that a line may end after, none of them wider than a line."""
    return [part for atom in atoms(text.strip()) for part in parted(atom, room, _wide)]


def _wide(text: str) -> float:
    return measured(text, TITLE)


def _draw_top(sheet: Sheet, shown: Shades, place: tuple[float, float], state: State) -> None:
    """The words of most weight, with bars as long as their weights."""
    if not shown.top:
        return
    x, y = place
    sheet.text(x, y + LABEL, say("top.words", state.language), LABEL, color=PALE)
    widest = max(measured(cut(text, LABEL, 60), LABEL) for text, _ in shown.top)
    bar = LIST - widest - 2 * GAP - 26
    largest = shown.top[0][1]
    for index, (text, weight) in enumerate(shown.top):
        line = y + LABEL + (index + 1) * (LABEL + 4)
        sheet.text(x, line, cut(text, LABEL, 60), LABEL)
        length = bar * weight / largest
        left = x + widest + GAP
        sheet.box((left, line - LABEL * 0.75, length, LABEL * 0.85), facecolor="#2f7fc1")
        sheet.text(left + length + 2, line, percent(weight), SMALL)
