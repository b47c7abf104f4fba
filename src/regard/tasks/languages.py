"""The language of a text, told from its script: enough to choose between the shipped models."""

import re
from typing import Literal

from regard.unicode import HAN, HAN_CHARACTER, KANA, KANA_CHARACTER

__all__ = ["Language", "recognise_language"]

Language = Literal["en", "zh"]

_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_KNOWN = re.compile(rf"[A-Za-z\u00c0-\u024f{HAN}{KANA}]")
_EXAMINED = 4000  # characters of a text


def recognise_language(text: str) -> Language | None:
    """English for Latin letters, Chinese for Han characters, None for any other script.

    A Chinese character counts as much as a Latin word, so that a Chinese sentence may have English
    names in it. A text without letters counts as English. Languages that share a script are not
    told apart.

    >>> from regard.tasks.languages import recognise_language
    >>> [recognise_language(text) for text in ("I love it", "iPhone 很好用", "да")]
    ['en', 'zh', None]
    """
    start = text[:_EXAMINED]
    chinese, english = len(HAN_CHARACTER.findall(start)), len(_LATIN_WORD.findall(start))
    kana = len(KANA_CHARACTER.findall(start))
    # letters of other alphabets, of which a word has about four
    others = sum(map(str.isalpha, _KNOWN.sub("", start))) / 4
    if kana > chinese / 4 or others > chinese + english:  # Japanese mixes kana and Han characters
        return None
    return "zh" if chinese > english else "en"
