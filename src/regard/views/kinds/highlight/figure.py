"""Highlighted text on paper: words on their shades, and those of most weight with bars."""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.text import say
from regard.views import colours
from regard.views.captions import percent
from regard.views.figure.canvas import (
    GAP,
    INK,
    LABEL,
    PALE,
    SMALL,
    TITLE,
    Canvas,
    cut_end,
    text_width,
)
from regard.views.kinds.highlight.numbers import HighlightNumbers, ShadedUnit
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.wrapping import line_break_parts, split_word

LINE_HEIGHT = TITLE * 1.75
UNDERLINE = 0.9  # points, below a marked word
WORD_GAP = 0.8  # between two words without a space, such as Chinese ones
LIST_WIDTH = 150.0  # of the list of words with most weight
WIDE_FIGURE = 360.0  # a figure at least this wide has the list beside the text, not below


@dataclass(frozen=True)
class WordPart:
    """The characters of one word that stand on one line."""

    word: ShadedUnit
    text: str
    x: float
    line: int
    width: float


def draw_highlight(
    canvas: Canvas, numbers: HighlightNumbers, scene: Scene, state: ViewState
) -> None:
    """The text, and the list of its words with most weight."""
    beside = canvas.width >= WIDE_FIGURE and bool(numbers.top)
    top = canvas.height + GAP
    room = canvas.width - 2 * GAP - (LIST_WIDTH + 3 * GAP if beside else 0)
    for part in lay_out_words(numbers.words, room):
        y = top + part.line * LINE_HEIGHT
        colour = colours.light(part.word.shade)
        canvas.pill((GAP + part.x - 0.6, y, part.width + 1.2, LINE_HEIGHT - 2.5), colour / 255)
        ink = "white" if colours.is_dim(colour) else INK
        canvas.text(GAP + part.x, y + LINE_HEIGHT * 0.64, part.text, TITLE, color=ink)
        if part.word.marked:
            line = (GAP + part.x, y + LINE_HEIGHT * 0.74, part.width, UNDERLINE)
            canvas.box(line, facecolor=ink)
    left = canvas.width - LIST_WIDTH - GAP if beside else GAP
    _draw_top_words(canvas, numbers, (left, top if beside else canvas.height + 2 * GAP), state)


def lay_out_words(words: tuple[ShadedUnit, ...], room: float) -> Iterator[WordPart]:
    """The words in lines; a word that is longer than a line is split."""
    x, line = 0.0, 0
    space = _word_width("n n") - _word_width("nn")
    for word in words:
        x += space if word.spaced and x else 0.0
        run = ""
        for piece in _word_pieces(word.text, room):
            if x + _word_width(run + piece) > room and (run or x):
                if run:
                    yield WordPart(word, run, x, line, _word_width(run))
                run, x, line = "", 0.0, line + 1
                piece = piece.lstrip()
            run += piece
        if run:
            yield WordPart(word, run, x, line, _word_width(run))
        x += _word_width(run) + WORD_GAP


def _word_pieces(word: str, room: float) -> list[str]:
    """The parts of a word that a line may end after, none of them wider than a line."""
    return [
        part
        for atom in line_break_parts(word.strip())
        for part in split_word(atom, room, _word_width)
    ]


def _word_width(word: str) -> float:
    """The width of a word in points, at the size in which the text is written."""
    return text_width(word, TITLE)


def _draw_top_words(
    canvas: Canvas, numbers: HighlightNumbers, place: tuple[float, float], state: ViewState
) -> None:
    """The words with most weight, with bars as long as their weights."""
    if not numbers.top:
        return
    x, y = place
    canvas.text(x, y + LABEL, say("top.words", state.language), LABEL, color=PALE)
    widest = max(text_width(cut_end(word, LABEL, 60), LABEL) for word, _ in numbers.top)
    bar = LIST_WIDTH - widest - 2 * GAP - 26
    largest = numbers.top[0][1]
    for index, (word, weight) in enumerate(numbers.top):
        line = y + LABEL + (index + 1) * (LABEL + 4)
        canvas.text(x, line, cut_end(word, LABEL, 60), LABEL)
        length = bar * weight / largest
        left = x + widest + GAP
        canvas.box((left, line - LABEL * 0.75, length, LABEL * 0.85), facecolor="#2f7fc1")
        canvas.text(left + length + 2, line, percent(weight), SMALL)
