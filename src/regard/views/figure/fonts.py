"""Fonts that have every character of a text: the packaged one, matplotlib's, the system's.

In SVG files text stays text, and the glyphs that it uses are embedded.
"""

import base64
import io
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib
from fontTools import subset
from fontTools.ttLib import TTFont, TTLibError
from matplotlib.font_manager import FontEntry, FontProperties, fontManager

PACKAGED_FILE = "RegardSans-Regular.ttf"
PACKAGED_FAMILY, MATPLOTLIB_FAMILY = "Regard Sans", "DejaVu Sans"
SVG_FONT = "@font-face{{font-family:'{family}';src:url(data:font/woff;base64,{data})}}"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class Face:
    """A font with the characters that it can draw."""

    family: str
    path: Path
    number: int
    characters: frozenset[int]


def drawable_text(text: str) -> str:
    r"""The text with characters that no font has written as U+XXXX, never as an empty box.

    >>> from regard.views.figure.fonts import drawable_text
    >>> drawable_text("爱 \ue0ff")
    '爱 U+E0FF'
    """
    return "".join(map(_drawable_character, text))


def font_properties(text: str, size: float) -> FontProperties:
    """The fonts of a text in order: each is used for the characters that those before it lack."""
    return FontProperties(family=list(_families(frozenset(text))), size=size)


@cache
def _drawable_character(character: str) -> str:
    """The character itself if a font can draw it, else its escape or code point."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if _is_variation_selector(character):
        return ""
    if _is_control(character) or face_of(character) is None:
        return f"U+{ord(character):04X}"
    return character


def _is_variation_selector(character: str) -> bool:
    """True if it only selects a variant of the character before it."""
    return "\ufe00" <= character <= "\ufe0f"


def _is_control(character: str) -> bool:
    """True for control, format and private-use characters, which have no glyph of their own."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


@cache
def _families(characters: frozenset[str]) -> tuple[str, ...]:
    """The families that a text of these characters needs, the packaged ones first."""
    faces = [*_packaged_faces(), *filter(None, map(face_of, sorted(characters)))]
    return tuple(dict.fromkeys(face.family for face in faces))


@cache
def face_of(character: str) -> Face | None:
    """The first font that has a character."""
    code = ord(character)
    return next((face for face in _all_faces() if code in face.characters), None)


def _all_faces() -> Iterator[Face]:
    """All fonts in the order in which they are asked for a character."""
    yield from _packaged_faces()
    for entry in _system_fonts():
        face = _system_face(Path(entry.fname), getattr(entry, "index", 0), entry.name)
        if face is not None:
            yield face


@cache
def _packaged_faces() -> tuple[Face, Face]:
    """Our own font, made known to matplotlib, and the one that it comes with."""
    with as_file(files("regard.views.figure") / "fonts" / PACKAGED_FILE) as path:
        known = {font.name for font in fontManager.ttflist}
        if PACKAGED_FAMILY not in known:
            fontManager.addfont(str(path))
        ours = _read_face(path, 0, PACKAGED_FAMILY)
    dejavu = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ours, _read_face(dejavu, 0, MATPLOTLIB_FAMILY)


@cache
def _system_fonts() -> tuple[FontEntry, ...]:
    """Upright fonts of the system by name, the usual weight first."""
    upright = [font for font in fontManager.ttflist if font.style == "normal"]
    return tuple(
        sorted(upright, key=lambda font: (str(font.weight) not in _REGULAR_WEIGHTS, font.name))
    )


_REGULAR_WEIGHTS = ("400", "normal", "regular", "book")


@cache
def _system_face(path: Path, number: int, family: str) -> Face | None:
    """A font of the system; none if it is broken, or has no outlines, as colour emoji do."""
    try:
        return _read_face(path, number, family)
    except (OSError, TTLibError, KeyError, ValueError, AssertionError):
        return None


def _read_face(path: Path, number: int, family: str) -> Face:
    """The font of a file with the characters that it has outlines for."""
    several = path.suffix.lower() == ".ttc"
    with path.open("rb") as file:
        font = TTFont(file, fontNumber=number if several else -1, lazy=True)
        if not {"glyf", "CFF ", "CFF2"} & {*font.keys()}:
            raise KeyError("outlines")
        return Face(family, path, number, frozenset(font.getBestCmap() or {}))


def embed_fonts(drawing: str, texts: Iterable[str]) -> str:
    """An SVG drawing with the glyphs of its texts embedded, so that it looks alike everywhere."""
    used: dict[Face, set[int]] = {}
    for character in sorted({*"".join(texts)}):
        face = face_of(character)
        if face is not None:
            used.setdefault(face, set()).add(ord(character))
    rules = "".join(
        SVG_FONT.format(
            family=face.family, data=base64.b64encode(_subset_font(face, codes)).decode()
        )
        for face, codes in used.items()
    )
    start = drawing.index("<defs>")
    return f'{drawing[:start]}<style type="text/css">{rules}</style>\n {drawing[start:]}'


def _subset_font(face: Face, codes: Iterable[int]) -> bytes:
    """A WOFF font of these characters alone."""
    options = subset.Options(hinting=False, layout_features=["*"], flavor="woff")
    options.drop_tables += ["FFTM"]
    number = face.number if face.path.suffix.lower() == ".ttc" else -1
    with TTFont(face.path, fontNumber=number, recalcTimestamp=False) as font:
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=codes)
        subsetter.subset(font)
        font.flavor = "woff"
        made = io.BytesIO()
        font.save(made)
    return made.getvalue()
