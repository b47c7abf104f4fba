"""Text that stays text in SVG, and looks the same everywhere: the used glyphs travel with it."""

import base64
import io
from collections.abc import Iterable

from fontTools import subset
from fontTools.ttLib import TTFont

from regard.views.figure.fonts import Face, face_of

FACE = "@font-face{{font-family:'{family}';src:url(data:font/woff;base64,{data})}}"


def with_fonts(drawing: str, texts: Iterable[str]) -> str:
    """The SVG with the glyphs of its texts in a style of its own."""
    used: dict[Face, set[int]] = {}
    for character in sorted({*"".join(texts)}):
        face = face_of(character)
        if face is not None:
            used.setdefault(face, set()).add(ord(character))
    rules = "".join(
        FACE.format(family=face.family, data=base64.b64encode(_glyphs(face, codes)).decode())
        for face, codes in used.items()
    )
    start = drawing.index("<defs>")
    return f'{drawing[:start]}<style type="text/css">{rules}</style>\n {drawing[start:]}'


def _glyphs(face: Face, codes: Iterable[int]) -> bytes:
    """A font of these characters alone."""
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
