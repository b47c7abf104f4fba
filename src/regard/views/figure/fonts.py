"""Fonts that have every character of a text: the packaged one, matplotlib's, the system's."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib
from fontTools.ttLib import TTFont, TTLibError
from matplotlib.font_manager import FontEntry, FontProperties, fontManager

PACKAGED = "RegardSans-Regular.ttf"
OURS, THEIRS = "Regard Sans", "DejaVu Sans"
_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class Face:
    """A font with the characters that it can draw."""

    family: str
    path: Path
    number: int
    characters: frozenset[int]


def drawable(text: str) -> str:
    r"""The text with what no font can draw spelled as U+XXXX: never a box.

    >>> from regard.views.figure.fonts import drawable
    >>> drawable("爱 \ue0ff")
    '爱 U+E0FF'
    """
    return "".join(map(_spelled, text))


def properties(text: str, size: float) -> FontProperties:
    """The fonts of a text, each for the characters that those before it lack."""
    return FontProperties(family=list(_families(frozenset(text))), size=size)


@cache
def _spelled(character: str) -> str:
    if character in _SPELLED:
        return _SPELLED[character]
    if _is_selector(character):
        return ""
    if _is_control(character) or face_of(character) is None:
        return f"U+{ord(character):04X}"
    return character


def _is_selector(character: str) -> bool:
    """Whether it only chooses between pictures of the character before it."""
    return "\ufe00" <= character <= "\ufe0f"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


@cache
def _families(characters: frozenset[str]) -> tuple[str, ...]:
    faces = [*_packaged(), *filter(None, map(face_of, sorted(characters)))]
    return tuple(dict.fromkeys(each.family for each in faces))


@cache
def face_of(character: str) -> Face | None:
    """The first font that has a character."""
    code = ord(character)
    return next((face for face in _faces() if code in face.characters), None)


def _faces() -> Iterator[Face]:
    yield from _packaged()
    for entry in _entries():
        face = _system(Path(entry.fname), getattr(entry, "index", 0), entry.name)
        if face is not None:
            yield face


@cache
def _packaged() -> tuple[Face, Face]:
    """Our own font, made known to matplotlib, and the one that it comes with."""
    with as_file(files("regard.views.figure") / "fonts" / PACKAGED) as place:
        known = {each.name for each in fontManager.ttflist}
        if OURS not in known:
            fontManager.addfont(str(place))
        ours = _face(place, 0, OURS)
    dejavu = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ours, _face(dejavu, 0, THEIRS)


@cache
def _entries() -> tuple[FontEntry, ...]:
    """Upright fonts of the system by name, the usual weight first."""
    upright = [each for each in fontManager.ttflist if each.style == "normal"]
    return tuple(sorted(upright, key=lambda each: (str(each.weight) not in _USUAL, each.name)))


_USUAL = ("400", "normal", "regular", "book")


@cache
def _system(path: Path, number: int, family: str) -> Face | None:
    """A font of the system; none if it is broken, or has no outlines, as colour emoji do."""
    try:
        return _face(path, number, family)
    except (OSError, TTLibError, KeyError, ValueError, AssertionError):
        return None


def _face(path: Path, number: int, family: str) -> Face:
    several = path.suffix.lower() == ".ttc"
    with path.open("rb") as file:
        font = TTFont(file, fontNumber=number if several else -1, lazy=True)
        if not {"glyf", "CFF ", "CFF2"} & {*font.keys()}:
            raise KeyError("outlines")
        return Face(family, path, number, frozenset(font.getBestCmap() or {}))
