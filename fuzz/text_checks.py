"""Checks of what was written: each raises a ValueError that says what a text did to its output.

They share nothing with the code that makes texts harmless, so that both cannot be wrong alike.
"""

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

__all__ = [
    "check_csv",
    "check_json",
    "check_same_elements",
    "check_svg",
    "check_terminal",
    "html_elements",
    "page_header",
    "page_text",
    "strings_of",
]

_OUR_CODES = re.compile(r"\x1b\[[0-9;]*m")  # colours, which rich writes
_JOINERS = "\u200c\u200d"  # of emoji and of several scripts
_DIRECTION = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_NOT_SHOWN = ("Cc", "Cs", "Zl", "Zp")
_ACTIVE = ("script", "foreignobject", "iframe", "object", "embed", "animate", "set", "a", "handler")


def check_terminal(output: str, *, coloured: bool = False) -> None:
    """No control character but line feeds, tabs and, if it is coloured, codes of colours."""
    bare = _OUR_CODES.sub("", output) if coloured else output
    for character in filter(_is_control, sorted({*bare})):
        place = bare.index(character)
        around = bare[max(0, place - 20) : place + 20]
        raise ValueError(f"U+{ord(character):04X} is in the output: {around!a}")


def _is_control(character: str) -> bool:
    """True if a terminal might obey the character, or hide or reorder text because of it."""
    if character in "\n\t" or character in _JOINERS:
        return False
    if character in _DIRECTION or "\U000e0000" <= character <= "\U000e007f":
        return True
    return unicodedata.category(character) in _NOT_SHOWN or character in "\u200b\u2060\ufeff\xad"


def check_json(output: str, text: str) -> None:
    """It is JSON without control characters, and one of its strings holds the text."""
    check_terminal(output)
    if not any(text in part for part in strings_of(json.loads(output))):
        raise ValueError(f"no string of the JSON holds the text: {output[:200]!a}")


def strings_of(value: Any) -> Iterator[str]:
    """Every string of a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_of(inner)


class _Elements(HTMLParser):
    """Counts elements with the names of their attributes, and keeps the header of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.header, self._in_header = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count an element."""
        self.elements[tag, tuple(sorted(name for name, _ in attrs))] += 1
        self._in_header = ("id", "regard-header") in attrs

    def handle_endtag(self, tag: str) -> None:
        """End the header."""
        self._in_header = False

    def handle_data(self, data: str) -> None:
        """Keep the text of the header."""
        if self._in_header:
            self.header += data

    def handle_comment(self, data: str) -> None:
        """Count a comment, of which we write none."""
        self.elements["!--", ()] += 1


def html_elements(page: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """How many elements a page has of each tag and set of attributes."""
    parser = _Elements()
    parser.feed(page)
    parser.close()
    return parser.elements


def page_header(page: str) -> Any:
    """The scene that a page carries along."""
    parser = _Elements()
    parser.feed(page)
    return json.loads(parser.header)["scene"]


def page_text(data: bytes) -> str:
    """The text of a page: UTF-16 with a mark for scenes, UTF-8 for tables."""
    return data.decode("utf-16" if data.startswith(b"\xff\xfe") else "utf-8")


def check_same_elements(page: str, benign: str) -> None:
    """The page has the elements and attributes of the page of a harmless text."""
    elements, expected = html_elements(page), html_elements(benign)
    if elements != expected:
        more, fewer = elements - expected, expected - elements
        raise ValueError(f"elements more: {dict(more)}, fewer: {dict(fewer)}")


def check_svg(data: bytes, known: Iterable[tuple[str, str]]) -> None:
    """It is well-formed, and has no element or attribute that no harmless drawing has."""
    new = svg_attributes(data) - {*known}
    active = [tag for tag, _ in svg_attributes(data) if tag.lower() in _ACTIVE]
    if new or active:
        raise ValueError(f"new in the drawing: {sorted(new)}, active elements: {active}")


def svg_attributes(data: bytes) -> set[tuple[str, str]]:
    """The pairs of element and attribute of a drawing; "" for the element itself."""
    pairs = set()
    for element in ElementTree.fromstring(data).iter():  # noqa: S314  a drawing of our own
        tag = str(element.tag).rpartition("}")[2]
        pairs |= {(tag, ""), *((tag, name.rpartition("}")[2]) for name in element.attrib)}
    return pairs


def check_csv(content: str) -> None:
    """No cell but a number begins as a formula does."""
    csv.field_size_limit(1 << 30)
    for row in csv.reader(io.StringIO(content, newline="")):
        for cell in row:
            if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(cell):
                raise ValueError(f"a cell is a formula: {cell[:80]!a}")


def _is_number(cell: str) -> bool:
    """True if a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
