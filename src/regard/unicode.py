"""Ranges of Unicode scripts that are written without spaces between words, and control characters.

Each range is the inside of a character class of a regular expression: `re.compile(f"[{HAN}]")`.
"""

import re

__all__ = [
    "HAN",
    "HAN_CHARACTER",
    "HAN_OR_KANA_CHARACTER",
    "KANA",
    "KANA_CHARACTER",
    "replace_controls",
]

# Unified ideographs with extension A, compatibility ideographs, and planes 2 and 3, which hold all
# later extensions. U+4DC0-4DFF, the hexagrams of the I Ching between the first two blocks, are
# symbols and no ideographs.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3040-\u30ff"  # hiragana and katakana

HAN_CHARACTER = re.compile(f"[{HAN}]")
KANA_CHARACTER = re.compile(f"[{KANA}]")
HAN_OR_KANA_CHARACTER = re.compile(f"[{HAN}{KANA}]")

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


def replace_controls(text: str) -> str:
    r"""The text with U+FFFD in place of every character that a terminal would obey.

    >>> from regard.unicode import replace_controls
    >>> replace_controls("a\x1b[31m")
    'a�[31m'
    """
    return _CONTROLS.sub("\ufffd", text)
