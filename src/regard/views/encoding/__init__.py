"""The byte code of weights: small, and within 3% of every weight of 0.1% and more.

A map is coded in the shorter of two ways: as the factors of its scores, whose cost grows with its
sides and not with its area, or as one level for each of its cells. FORMAT.md in the page's folder
says what the bytes are.
"""

from regard.views.encoding.blobs import SMALL, Cells, by_level, decode, encode
from regard.views.encoding.factors import Scores
from regard.views.encoding.levels import LEAST, LEVELS, TOLERANCE, byte_levels, from_levels

__all__ = [
    "LEAST",
    "LEVELS",
    "SMALL",
    "TOLERANCE",
    "Cells",
    "Scores",
    "by_level",
    "byte_levels",
    "decode",
    "encode",
    "from_levels",
]
