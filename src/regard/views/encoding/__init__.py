"""Attention weights encoded as bytes: small, and within 3% of every weight of 0.1% and more.

A page holds every head of every layer, so its size is that of the maps: 12 layers of 12 heads with
512 x 512 weights are 150 MB of float32. `encode(weights)` gives one blob of bytes per head, the
shortest of three codes, deflated:

- levels (levels.py): one byte per weight, on a logarithmic scale. 0.25 is level 129, which stands
  for 0.254, 1.6% more.
- differences (levels.py): each level minus what its neighbours above and to the left predict, which
  deflates better where a map is smooth.
- factors (factors.py): the logarithm of a head's weights is q_i . k_j minus a term of the row, so a
  head of width 64 is a matrix of rank 64 however long the text is. Rounded factors cost
  (rows + columns) x rank numbers, and the few cells that they miss get corrections.

Cells that can have no weight, such as the future of a causal map, are left out (support.py).
`decode(blob)` gives the weights back; the front end does the same in TypeScript. FORMAT.md in the
page's folder describes the bytes.
"""

from regard.views.encoding.blobs import (
    SMALL_MAP,
    CellLevels,
    decode,
    encode,
    encode_by_factors,
    encode_by_levels,
)
from regard.views.encoding.factors import LogFactors
from regard.views.encoding.levels import LEAST, LEVELS, TOLERANCE, byte_levels, from_levels

__all__ = [
    "LEAST",
    "LEVELS",
    "SMALL_MAP",
    "TOLERANCE",
    "CellLevels",
    "LogFactors",
    "byte_levels",
    "decode",
    "encode",
    "encode_by_factors",
    "encode_by_levels",
    "from_levels",
]
