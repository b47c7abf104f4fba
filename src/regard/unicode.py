"""Ranges of Unicode scripts that are written without spaces between words.

Each is the inside of a character class of a regular expression: `re.compile(f"[{HAN}]")`.
"""

import re

__all__ = ["HAN", "HAN_CHARACTER", "HAN_OR_KANA_CHARACTER", "KANA", "KANA_CHARACTER"]

# Unified ideographs with extension A, compatibility ideographs, and planes 2 and 3, which hold all
# later extensions. U+4DC0-4DFF, the hexagrams of the I Ching between the first two blocks, are
# symbols and no ideographs.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3040-\u30ff"  # hiragana and katakana

HAN_CHARACTER = re.compile(f"[{HAN}]")
KANA_CHARACTER = re.compile(f"[{KANA}]")
HAN_OR_KANA_CHARACTER = re.compile(f"[{HAN}{KANA}]")
