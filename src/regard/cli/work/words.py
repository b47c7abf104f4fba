"""From the text of the command line to words, and from --query to one of them."""

import re

from regard.errors import InputError
from regard.unicode import HAN

_CHARACTERS = re.compile(f"[{HAN}]|[^{HAN}]+")
_LISTED = 20  # words that a message names


def split(text: str) -> list[str]:
    """The words between white space; of Chinese without white space, each character.

    >>> split("我 爱 中国"), split("我爱NLP"), split("I love you")
    (['我', '爱', '中国'], ['我', '爱', 'NLP'], ['I', 'love', 'you'])
    """
    words = text.split()
    if not words:
        raise InputError('the text has no words; give some, such as regard explain "我 爱 中国"')
    return words if len(words) > 1 else _CHARACTERS.findall(words[0])


def find(words: list[str], query: str) -> int:
    """The index of the query: the first word that equals it, else the word at this position."""
    if query in words:
        return words.index(query)
    if query.isdecimal() and len(query) < 10 and 1 <= int(query) <= len(words):
        return int(query) - 1
    raise InputError(
        f"--query {query!r} is not in the text; give one of its words or their positions: "
        f"{_listed(words)}"
    )


def named(words: list[str]) -> list[str]:
    """The words as a table names them: one that occurs again carries its position."""
    return [
        f"{printable(word)}:{place}" if words.count(word) > 1 else printable(word)
        for place, word in enumerate(words, start=1)
    ]


def printable(word: str) -> str:
    """The word without characters that would steer the terminal."""
    return "".join("\ufffd" if ord(c) < 32 or 127 <= ord(c) < 160 else c for c in word)


def _listed(words: list[str]) -> str:
    shown = ", ".join(f"{place} {printable(word)}" for place, word in enumerate(words[:_LISTED], 1))
    return shown if len(words) <= _LISTED else f"{shown}, … {len(words)} {printable(words[-1])}"
