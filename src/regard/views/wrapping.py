"""Wrap text into lines: words of letters stay whole, between ideographs a line may end."""

import re
from collections.abc import Callable

TextMeasure = Callable[[str], float]

_WIDE = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"  # ideographs, kana and their punctuation
# Closing marks stay with what they close.
_LINE_BREAK_PART = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)[，。、；：！？”’）」』]*")


def line_break_parts(text: str) -> list[str]:
    """The parts of a text that a line may end after; a part begins with the space before it.

    >>> from regard.views.wrapping import line_break_parts
    >>> line_break_parts("I love 你们。")
    ['I', ' love', ' 你', '们。']
    """
    return _LINE_BREAK_PART.findall(text)


def wrap_text(text: str, room: float, measure: TextMeasure) -> list[str]:
    """The lines of a text, none wider than the room; a longer word is split."""
    lines = [""]
    for part in line_break_parts(text):
        if measure(lines[-1] + part) <= room:
            lines[-1] += part
            continue
        if lines[-1]:
            lines.append("")
        for piece in split_word(part.lstrip(), room, measure):
            if lines[-1] and measure(lines[-1] + piece) > room:
                lines.append("")
            lines[-1] += piece
    return [line for line in lines if line]


def split_word(word: str, room: float, measure: TextMeasure) -> list[str]:
    """A word in parts that each fit, halved as often as needed."""
    if measure(word) <= room or len(word) < 2:
        return [word]
    middle = len(word) // 2
    return [*split_word(word[:middle], room, measure), *split_word(word[middle:], room, measure)]
