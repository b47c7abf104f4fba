"""Texts in one spelling, so that a name is found however it is written, with their places kept."""

import re
import unicodedata
from typing import NamedTuple

__all__ = ["MASK", "NormalisedText", "mask_span", "normalise", "normalise_entry"]

MASK = "〓"  # stands for the subject in a question; printers set it for a character they lack

_BLANK = re.compile(r"\s+")
_HAN = re.compile(r"[㐀-鿿]")


class NormalisedText(NamedTuple):
    """Letters and digits of a text in one spelling, and the place of each in the text."""

    text: str
    places: tuple[int, ...]

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """The characters of the original text that some characters of this one come from."""
        return self.places[start], self.places[stop - 1] + 1


def normalise(text: str) -> NormalisedText:
    """Lower case, full-width letters as ASCII, no blanks and no punctuation.

    >>> from regard.tasks.knowledge.normalise import normalise
    >>> normalise("《ＡＢ 型》").text
    'ab型'
    """
    characters, places = list[str](), list[int]()
    for place, original in enumerate(text):
        for character in unicodedata.normalize("NFKC", original).lower():
            if unicodedata.category(character)[0] in "LMN":
                characters.append(character)
                places.append(place)
    return NormalisedText("".join(characters), tuple(places))


def normalise_entry(text: str) -> str:
    """A relation or question as a matcher reads it: one spelling, Chinese without blanks.

    >>> from regard.tasks.knowledge.normalise import normalise_entry
    >>> normalise_entry("面  积"), normalise_entry("Date  of birth")
    ('面积', 'date of birth')
    """
    text = _BLANK.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip()
    return text.replace(" ", "") if _HAN.search(text) else text


def mask_span(question: str, span: tuple[int, int] | None) -> str:
    """The question as a matcher reads it, with a mask in place of the characters of the subject."""
    if span is None:
        return normalise_entry(question)
    return normalise_entry(question[: span[0]] + MASK + question[span[1] :])
