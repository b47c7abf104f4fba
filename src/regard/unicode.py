"""Ranges of Unicode scripts that are written without spaces between words, and control characters.

Each range is the inside of a character class of a regular expression: `re.compile(f"[{HAN}]")`.

Text from models, files and names may hold characters that a terminal obeys or that hide or reorder
text. Which these are is decided here alone: `spell_controls` and `replace_controls` change them in
text that a person reads, `escape_controls` in JSON, which keeps every character.
"""

import re

__all__ = [
    "HAN",
    "HAN_CHARACTER",
    "HAN_OR_KANA_CHARACTER",
    "KANA",
    "KANA_CHARACTER",
    "cut_text",
    "escape_controls",
    "replace_controls",
    "spell_controls",
    "split_ending_joiners",
]

# Unified ideographs with extension A, compatibility ideographs, and planes 2 and 3, which hold all
# later extensions. U+4DC0-4DFF, the hexagrams of the I Ching between the first two blocks, are
# symbols and no ideographs.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3040-\u30ff"  # hiragana and katakana

HAN_CHARACTER = re.compile(f"[{HAN}]")
KANA_CHARACTER = re.compile(f"[{KANA}]")
HAN_OR_KANA_CHARACTER = re.compile(f"[{HAN}{KANA}]")

# Harmful wherever they stand.
_HARMFUL = (
    "\x00-\x1f\x7f-\x9f"  # C0 controls with ESC and BEL, DEL, C1 controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of direction, which reorder text
    "\u2028\u2029"  # separators of lines and paragraphs
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # all invisible
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags: invisible copies of ASCII
    "\ud800-\udfff\ufffe\uffff"  # halves of surrogate pairs and noncharacters
)
# Part of words and emoji where they join two visible characters, invisible elsewhere.
_JOINERS = "\u200c\u200d"
# Choose the form of the one character before them; a second one in a row only hides bytes.
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"

_NOT_JOINED = f"\x00-\x7f{_HARMFUL}{_JOINERS}"
# A lookbehind for "no character outside of the class" also holds at the beginning of the text.
_CONTROL = re.compile(
    f"[{_HARMFUL}]"
    f"|(?<![^{_NOT_JOINED}])[{_JOINERS}]|[{_JOINERS}](?![^{_NOT_JOINED}])"
    f"|(?<![^{_HARMFUL}{_JOINERS}{_SELECTORS}])[{_SELECTORS}]"
)
_CONTROL_BUT_LINES = re.compile(rf"(?![\n\t])(?:{_CONTROL.pattern})")
_JSON_ESCAPED = re.compile(f"(?!\n)[{_HARMFUL}{_JOINERS}{_SELECTORS}]")
_ENDING_JOINERS = re.compile(f"[{_JOINERS}{_SELECTORS}]+$")
_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def replace_controls(text: str, *, lines: bool = False) -> str:
    r"""The text with U+FFFD in place of every character that steers a terminal or hides text.

    These are control characters, marks of direction, separators of lines, and invisible characters.
    Joiners and variation selectors stay where emoji and scripts use them. One character replaces
    one, so that positions in the text stay valid. `lines` keeps line feeds and tabs.

    >>> from regard.unicode import replace_controls
    >>> replace_controls("a\x1b[31m")
    'a�[31m'
    >>> replace_controls("two\nlines", lines=True)
    'two\nlines'
    """
    return (_CONTROL_BUT_LINES if lines else _CONTROL).sub("\ufffd", text)


def spell_controls(text: str) -> str:
    r"""The text with the same characters spelled out, for labels that have to be told apart.

    >>> from regard.unicode import spell_controls
    >>> spell_controls("a\n\x1b")
    'a\\nU+001B'
    """
    return _CONTROL.sub(lambda match: _SPELLED.get(match[0], f"U+{ord(match[0]):04X}"), text)


def escape_controls(json_text: str) -> str:
    r"""JSON with every such character escaped; it is read back as the same strings.

    >>> from regard.unicode import escape_controls
    >>> escape_controls('"\x9b"')
    '"\\u009b"'
    """
    return _JSON_ESCAPED.sub(lambda match: _json_escape(match[0]), json_text)


def _json_escape(character: str) -> str:
    """The character as JSON writes it in ASCII: one escape, or two for a surrogate pair."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def split_ending_joiners(text: str) -> tuple[str, str]:
    """The text before joiners and selectors at its end, whose meaning depends on what follows."""
    ending = _ENDING_JOINERS.search(text)
    return (text, "") if ending is None else (text[: ending.start()], ending[0])


def cut_text(text: str, longest: int) -> str:
    """The text if it has at most `longest` characters, else its beginning and an ellipsis.

    >>> from regard.unicode import cut_text
    >>> cut_text("attention", 5), cut_text("all", 5)
    ('atte…', 'all')
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
