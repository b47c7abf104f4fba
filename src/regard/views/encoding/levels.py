"""One byte for each weight, and the differences of these bytes from what neighbours predict.

Level 0 is no weight at all. Levels 1 to 28 are coarse steps from a millionth to 0.1%, which pages
show as "< 0.1%"; levels 29 to 255 are fine steps of 5.5% up to a weight of 1.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 0.03  # how far a shown weight may be from the true one, as a share of it
LEAST = 0.001  # the least weight that the tolerance holds for

# Steps of the logarithm: half a fine step is 2.8% of a weight, and dropped bits are another 0.2%.
FINE_STEP, COARSE_STEP = 0.0551, 0.25
COARSE_LEVELS = 28
DROPPED_BITS = 15  # low bits of a float32 that its level is looked up without

BLOCK = 1 << 15  # weights that are looked up at once, so that indices stay in the cache

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def _level_weights() -> Floats:
    """The weight that each byte stands for: the geometric middle of the weights it covers."""
    coarse = -COARSE_STEP * (COARSE_LEVELS - 0.5 - np.arange(COARSE_LEVELS))
    fine = FINE_STEP * (np.arange(255 - COARSE_LEVELS) + 0.5)
    return np.concatenate([[0.0], LEAST * np.exp(np.concatenate([coarse, fine]))]).astype("f4")


LEVELS = _level_weights()


@cache
def _level_table() -> Bytes:
    """The level of every weight by the high bits of its float32: a lookup is faster than a log."""
    highs = np.arange(1 << (31 - DROPPED_BITS), dtype=np.uint32)
    middles = ((highs << DROPPED_BITS) + (1 << (DROPPED_BITS - 1))).view(np.float32)
    with np.errstate(all="ignore"):  # the last bit patterns are NaN
        logs = np.log(np.nan_to_num(middles, nan=np.inf) / LEAST)
    steps = np.where(logs < 0, logs / COARSE_STEP, logs / FINE_STEP)
    levels = np.floor(steps.clip(-COARSE_LEVELS - 1, 255)) + COARSE_LEVELS + 1
    # A weight of exactly 0.1% gets a fine level, whatever the middle of its bit pattern is.
    levels[np.float32(LEAST).view(np.uint32) >> DROPPED_BITS] = COARSE_LEVELS + 1
    table: Bytes = levels.clip(0, 255).astype(np.uint8)
    return table


def byte_levels(weights: Floats) -> Bytes:
    """The level of each weight; a weight too small for the lowest level is 0."""
    levels = np.empty(weights.shape, np.uint8)
    bits, flat = weights.reshape(-1).view(np.uint32), levels.reshape(-1)
    for start in range(0, len(bits), BLOCK):
        part = slice(start, start + BLOCK)
        np.take(_level_table(), bits[part] >> DROPPED_BITS, out=flat[part], mode="clip")
    return levels


def from_levels(levels: Bytes) -> Floats:
    """The weights that levels stand for."""
    return LEVELS[levels]


def residuals(levels: Bytes) -> Bytes:
    """Levels of maps (head query key) minus their predictions, modulo 256 (Weinberger et al. 2000).

    Outside of a map all levels count as 0.
    """
    heads, rows, columns = levels.shape
    framed = np.zeros((heads, rows + 1, columns + 1), np.uint8)
    framed[:, 1:, 1:] = levels
    return levels - _predict(framed[:, :-1, 1:], framed[:, 1:, :-1], framed[:, :-1, :-1])


def restore_levels(differences: Bytes, inside: NDArray[np.bool_]) -> Bytes:
    """The levels that `residuals` were made of; cells that are not inside the support are 0.

    A cell needs those above and to the left of it, so all cells of a diagonal are done at once.
    """
    rows, columns = differences.shape
    width = columns + 1
    levels = np.zeros((rows + 1, width), np.uint8)
    flat, deltas, support = levels.reshape(-1), np.zeros_like(levels), np.zeros_like(levels)
    deltas[1:, 1:], support[1:, 1:] = differences, inside
    deltas, support = deltas.reshape(-1), support.reshape(-1)
    for diagonal in range(rows + columns - 1):
        first = max(0, diagonal - columns + 1)
        down = np.arange(first, min(rows, diagonal + 1))
        places = (down + 1) * width + diagonal - down + 1
        predicted = _predict(flat[places - width], flat[places - 1], flat[places - width - 1])
        flat[places] = (deltas[places] + predicted) * support[places]
    return levels[1:, 1:]


def _predict(above: Bytes, left: Bytes, corner: Bytes) -> Bytes:
    """The median of the cell above, the one to the left, and their sum less the corner.

    With the corner cut to what lies between the two, the sum less the corner is the median, and
    bytes may wrap around on the way.
    """
    low, high = np.minimum(above, left), np.maximum(above, left)
    between = np.minimum(np.maximum(corner, low, out=low), high, out=high)
    return above + left - between
