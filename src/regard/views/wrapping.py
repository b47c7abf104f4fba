"""Text in lines: words of letters stay whole, ideographs may part anywhere."""

import re
from collections.abc import Callable

TextMeasure = Callable[[str], float]

_WIDE = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"  # ideographs, kana and their punctuation
# closing marks stay with what they close
_ATOM = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)[，。、；：！？”’）」』]*")


def line_break_parts(text: str) -> list[str]:
    """The parts of a text that a line may end after; each begins with the space before it.

    >>> from regard.views.wrapping import atoms
    >>> atoms("I love 你们。")
    ['I', ' love', ' 你', '们。']
    """
    return _ATOM.findall(text)


def wrap_text(text: str, room: float, measure: TextMeasure) -> list[str]:
    """The lines of a text that are no wider than the room; a longer word is parted."""
    lines = [""]
    for atom in line_break_parts(text):
        if measure(lines[-1] + atom) <= room:
            lines[-1] += atom
            continue
        if lines[-1]:
            lines.append("")
        for part in split_word(atom.lstrip(), room, measure):
            if lines[-1] and measure(lines[-1] + part) > room:
                lines.append("")
            lines[-1] += part
    return [line for line in lines if line]


def split_word(word: str, room: float, measure: TextMeasure) -> list[str]:
    """A word in parts that each have room."""
    if measure(word) <= room or len(word) < 2:
        return [word]
    middle = len(word) // 2
    return [*split_word(word[:middle], room, measure), *split_word(word[middle:], room, measure)]
