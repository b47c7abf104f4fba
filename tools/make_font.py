"""Make the font of figures: a subset of Noto Sans CJK SC as TrueType, without hints.

Run: python tools/make_font.py NotoSansCJK-Regular.ttc (of Debian's package fonts-noto-cjk).
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from fontTools import subset
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.cu2quPen import Cu2QuPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTCollection, TTFont

MADE = 3_725_000_000  # seconds since 1904: the same bytes every time
FAMILY = "Regard Sans"
PLACE = Path(__file__).parents[1] / "src/regard/views/figure/fonts/RegardSans-Regular.ttf"
TOLERANCE = 2.0  # thousandths of an em that a quadratic outline may lie beside the cubic one
RUNS = ((0x20, 0x17F), (0x370, 0x3FF), (0x400, 0x45F), (0x2010, 0x2027), (0x2030, 0x205E))
RUNS += ((0x2190, 0x2199), (0x3000, 0x303F), (0x3040, 0x30FF), (0xFF01, 0xFFE6))
ROWS = {
    "gb2312": (0xA1, 0xF8),
    "euc_kr": (0xA1, 0xC9),
    "euc_jp": (0xA1, 0xD0),
    "big5": (0xA4, 0xC7),
}


def characters() -> Iterator[int]:
    """GB 2312, Hangul of KS X 1001, the first levels of JIS X 0208 and Big5, Latin letters."""
    for first, last in RUNS:
        yield from range(first, last + 1)
    for code, (first, last) in ROWS.items():
        for pair in ((row, cell) for row in range(first, last) for cell in range(0x40, 0xFF)):
            yield from map(ord, bytes(pair).decode(code, "ignore"))


def subset_of(font: TTFont) -> TTFont:
    """The glyphs of the characters, each at its place, and nothing else."""
    options = subset.Options(hinting=False, layout_features=[], notdef_outline=True)
    options.drop_tables += ["GSUB", "GPOS", "GDEF", "BASE", "VORG", "vhea", "vmtx", "DSIG"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[*characters()])
    subsetter.subset(font)
    return font


def quadratic(font: TTFont) -> FontBuilder:
    """The font with outlines of TrueType, which every version of matplotlib can embed."""
    order, glyphs, source = font.getGlyphOrder(), {}, font.getGlyphSet()
    for name in order:
        pen = TTGlyphPen(None)
        source[name].draw(Cu2QuPen(pen, TOLERANCE, reverse_direction=True))
        glyphs[name] = pen.glyph()
    made = FontBuilder(font["head"].unitsPerEm, isTTF=True)
    made.setupGlyphOrder(order)
    made.setupCharacterMap(font.getBestCmap())
    made.setupGlyf(glyphs)
    widths = {name: font["hmtx"][name][0] for name in order}
    made.setupHorizontalMetrics({name: (widths[name], glyphs[name].xMin) for name in order})
    # no taller than letters and ideographs are, so that lines of text stand close
    made.setupHorizontalHeader(ascent=880, descent=-120)
    made.setupOS2(sTypoAscender=880, sTypoDescender=-120, usWinAscent=880, usWinDescent=200)
    made.setupPost(keepGlyphNames=False)
    return made


def main() -> None:
    """Write the font into the package."""
    fonts = TTCollection(sys.argv[1]).fonts
    font = next(each for each in fonts if each["name"].getDebugName(1) == "Noto Sans CJK SC")
    names = {number: font["name"].getDebugName(number) for number in (0, 13, 14)}
    made = quadratic(subset_of(font))
    made.setupNameTable(
        {
            "copyright": names[0],
            "familyName": FAMILY,
            "styleName": "Regular",
            "uniqueFontIdentifier": f"{FAMILY} Regular, a subset of Noto Sans CJK SC",
            "fullName": FAMILY,
            "psName": "RegardSans-Regular",
            "version": "Version 1.0",
            "licenseDescription": names[13],
            "licenseInfoURL": names[14],
        }
    )
    made.font["head"].created = made.font["head"].modified = MADE
    made.font.recalcTimestamp = False
    made.save(PLACE)


if __name__ == "__main__":
    main()
