"""One byte for each weight: fine levels from 0.1% up, coarser ones below, 0 for none at all."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 0.03  # how far a shown weight may be from the true one, as a share of it
LEAST = 0.001  # the least weight that this holds for; smaller ones are shown as "< 0.1%"

FINE, COARSE = 0.0551, 0.25  # steps of the logarithm: exp(FINE / 2) is 2.8% off, and see BITS
BELOW = 28  # coarse levels: they reach down to a millionth

BITS = 15  # low bits of a weight that its level is chosen without: another 0.2%

BLOCK = 1 << 15  # weights that are looked up at once

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def _levels() -> Floats:
    """The weight that each byte stands for: the geometric middle of what it covers."""
    coarse = -COARSE * (BELOW - 0.5 - np.arange(BELOW))
    fine = FINE * (np.arange(255 - BELOW) + 0.5)
    return np.concatenate([[0.0], LEAST * np.exp(np.concatenate([coarse, fine]))]).astype("f4")


LEVELS = _levels()


@cache
def _table() -> Bytes:
    """The level of every weight by its high bits: looked up, not computed."""
    highs = np.arange(1 << (31 - BITS), dtype=np.uint32)
    middles = ((highs << BITS) + (1 << (BITS - 1))).view(np.float32)
    with np.errstate(all="ignore"):  # the last ones are no numbers
        logs = np.log(np.nan_to_num(middles, nan=np.inf) / LEAST)
    steps = np.where(logs < 0, logs / COARSE, logs / FINE)
    levels = np.floor(steps.clip(-BELOW - 1, 255)) + BELOW + 1
    # a weight of exactly 0.1% has a fine level, whatever the middle of its neighbours is
    levels[np.float32(LEAST).view(np.uint32) >> BITS] = BELOW + 1
    found: Bytes = levels.clip(0, 255).astype(np.uint8)
    return found


def byte_levels(weights: Floats) -> Bytes:
    """The level of each weight; a weight too small for the lowest one is 0."""
    found = np.empty(weights.shape, np.uint8)
    bits, flat = weights.reshape(-1).view(np.uint32), found.reshape(-1)
    for start in range(0, len(bits), BLOCK):  # so that indices stay in the cache
        part = slice(start, start + BLOCK)
        np.take(_table(), bits[part] >> BITS, out=flat[part], mode="clip")
    return found


def from_levels(levels: Bytes) -> Floats:
    """The weights that levels stand for."""
    return LEVELS[levels]
