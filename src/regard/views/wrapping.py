"""Text in lines: words of letters stay whole, ideographs may part anywhere."""

import re
from collections.abc import Callable

Measure = Callable[[str], float]

_WIDE = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"  # ideographs, kana and their punctuation
# closing marks stay with what they close
_ATOM = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)[，。、；：！？”’）」』]*")


def atoms(text: str) -> list[str]:
    """The parts of a text that a line may end after; each begins with the space before it.

    >>> from regard.views.wrapping import atoms
    >>> atoms("I love 你们。")
    ['I', ' love', ' 你', '们。']
    """
    return _ATOM.findall(text)


def wrapped(text: str, room: float, measure: Measure) -> list[str]:
    """The lines of a text that are no wider than the room; a longer word is parted."""
    lines = [""]
    for atom in atoms(text):
        if measure(lines[-1] + atom) <= room:
            lines[-1] += atom
            continue
        if lines[-1]:
            lines.append("")
        for part in parted(atom.lstrip(), room, measure):
            if lines[-1] and measure(lines[-1] + part) > room:
                lines.append("")
            lines[-1] += part
    return [line for line in lines if line]


def parted(word: str, room: float, measure: Measure) -> list[str]:
    """A word in parts that each have room."""
    if measure(word) <= room or len(word) < 2:
        return [word]
    middle = len(word) // 2
    return [*parted(word[:middle], room, measure), *parted(word[middle:], room, measure)]
