"""A map to bytes and back: the shorter of its two codes, deflated."""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.views.encoding import packing
from regard.views.encoding.factors import MOST, Factors, Scores, factorise, find
from regard.views.encoding.levels import LEAST, TOLERANCE, byte_levels, from_levels
from regard.views.encoding.prediction import residuals, restored
from regard.views.encoding.support import EVERY, Support

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

HEAD = struct.Struct("<BBHIIf")  # code, support, rank, rows, columns, largest weight
BY_LEVEL, BY_FACTOR, BY_DIFFERENCE = 0, 1, 2
CORRECTION = 0.04  # the step of a correction to a logarithm
ALLOWED = 0.029  # how far a logarithm may be off: less than log(1 + TOLERANCE)
SAMPLED = 5  # every so many bytes are looked at to choose a code
SMALL = 1 << 15  # cells below which factors save too little for the time that they take
FEW = 1.7  # cells for each factor of a row or column from which factors are shorter
SHORT = 2.5  # cells for each byte from which levels need not be tried
SMALLEST = 1e-30  # logarithms of smaller weights may have been lost by their dtype

assert np.expm1(ALLOWED) < TOLERANCE


def encode(weights: Floats, scores: Sequence[Scores] | None = None) -> list[bytes]:
    """The bytes of each of some maps (head query key), none negative.

    `scores`, if they are known, are the factors of the maps. Small maps are coded all at once.
    """
    if weights[0].size < SMALL:
        return by_level(Cells.of(weights))
    known: Sequence[Scores | None] = scores or [None] * len(weights)
    return [_shorter(*pair) for pair in zip(weights, known, strict=True)]


def _shorter(weights: Floats, scores: Scores | None) -> bytes:
    """The shorter code of a map."""
    factors = by_factor(weights, scores)
    if factors is not None and SHORT * len(factors) < weights.size:
        return factors
    (levels,) = by_level(Cells.of(weights[None]))
    return levels if factors is None else min(levels, factors, key=len)


def decode(blob: bytes) -> Floats:
    """The weights that `encode` wrote, each of 0.1% and more within 3%."""
    data = memoryview(zlib.decompress(blob, wbits=-15))
    code, kind, rank, rows, columns, largest = HEAD.unpack_from(data)
    support, used = Support.read(kind, rows, columns, data[HEAD.size :])
    data = data[HEAD.size + used :]
    if code == BY_FACTOR:
        factors, corrections = packing.unpack(data, rank, rows, columns)
        logs = factors.logs()
        logs.numpy().reshape(-1)[corrections.places] += CORRECTION * corrections.steps
        weights: Floats = logs.exp_().clamp_(max=largest).numpy()
        if support.kind != EVERY:
            weights[~support.cells] = 0
        return weights
    levels = np.zeros((rows, columns), np.uint8)
    inside = support.cells
    levels[inside] = np.frombuffer(data, np.uint8, support.count)
    if code == BY_DIFFERENCE:
        levels = restored(levels, inside)
    return np.minimum(from_levels(levels), np.float32(largest))


@dataclass(frozen=True, eq=False)
class Cells:
    """What is coded of maps (head query key) cell by cell: their weights need not be kept."""

    levels: Bytes
    supports: list[Support]
    largest: Floats

    @classmethod
    def of(cls, weights: Floats) -> "Cells":
        """Levels, where weights can be at all, and the largest weight of each map."""
        every = weights.min((1, 2)) > 0  # as in most maps that are not causal
        whole = Support.every(*weights.shape[1:])
        supports = [
            whole if full else Support.of(each) for full, each in zip(every, weights, strict=True)
        ]
        return cls(byte_levels(weights), supports, weights.max((1, 2)))


def by_level(cells: Cells) -> list[bytes]:
    """The maps, each byte a level, or the difference from what neighbours let one expect."""
    differences = residuals(cells.levels)
    coded = [
        [_inside(support, each[head]) for each in (cells.levels, differences)]
        for head, support in enumerate(cells.supports)
    ]
    shorter, even = _chosen(coded)
    return [
        _deflated([_head(support, code, most) + pair[code // 2].tobytes()], even=plain)
        for support, pair, code, most, plain in zip(
            cells.supports, coded, shorter, cells.largest, even, strict=True
        )
    ]


def _inside(support: Support, levels: Bytes) -> Bytes:
    return (levels if support.kind == EVERY else levels[support.cells]).reshape(-1)


def _head(support: Support, code: int, largest: np.float32) -> bytes:
    sizes = len(support.starts), support.columns
    return HEAD.pack(code, support.kind, 0, *sizes, largest) + support.to_bytes()


def _chosen(coded: list[list[Bytes]]) -> tuple[list[int], list[bool]]:
    """The code of each map that Huffman makes shorter, and whether no byte of it stands out."""
    counts = np.array(
        [[np.bincount(each[::SAMPLED], minlength=256) for each in pair] for pair in coded]
    )
    totals = counts.sum(-1, keepdims=True)
    shares = counts / np.maximum(1, totals)
    bits = -(shares * np.log2(shares, out=np.zeros_like(shares), where=counts > 0)).sum(-1)
    differing = bits[:, 1] < bits[:, 0]
    taken = np.take_along_axis(counts, differing[:, None, None].astype(int), 1)[:, 0]
    even = taken.max(-1) < totals[:, 0, 0] // 4
    return [BY_DIFFERENCE if each else BY_LEVEL for each in differing], even.tolist()


def by_factor(weights: Floats, scores: Scores | None) -> bytes | None:
    """The map as factors; None where they would not be shorter, or cannot say it."""
    rows, columns = weights.shape
    support = Support.of(weights)
    most = min(MOST, int(support.count / (FEW * (rows + columns))))
    if scores is not None and scores.keys.shape[1] > most:
        return None
    factors = _factors(weights, support, scores, most)
    if factors is None or len(factors.steps) > most:
        return None
    factors = packing.settled(factors)
    corrections = _corrections(weights, support, factors)
    if corrections is None:
        return None
    head = HEAD.pack(
        BY_FACTOR, support.kind, len(factors.steps), rows, columns, weights.max(initial=0)
    )
    parts = [head + support.to_bytes(), *packing.pack(factors, corrections)]
    longest = np.frombuffer(max(parts, key=len), np.uint8)
    even = np.bincount(longest, minlength=256).max() < len(longest) // 4
    return _deflated(parts, even=bool(even))


def _factors(weights: Floats, support: Support, scores: Scores | None, most: int) -> Factors | None:
    if scores is not None:
        return factorise(scores)
    if support.kind != EVERY or weights.min() < SMALLEST:
        return None
    return find(torch.from_numpy(weights).log(), most)


def _corrections(weights: Floats, support: Support, factors: Factors) -> packing.Corrections | None:
    """What to add where the factors are too far off; None if they are nowhere near."""
    inside = None if support.kind == EVERY else support.cells
    found = []
    for rows, logs in factors.blocks():
        true = torch.from_numpy(weights[rows])
        wrong = true.log().sub_(logs).numpy()
        # few are far off, and fewer of these are large enough to matter
        far = (wrong > ALLOWED) | (wrong < -ALLOWED)
        if inside is not None:
            far &= inside[rows]
        places = np.flatnonzero(far)
        large = true.numpy().reshape(-1)[places] >= LEAST
        large |= logs.numpy().reshape(-1)[places] > math.log(LEAST) + ALLOWED
        places = places[large]
        steps = np.rint(wrong.reshape(-1)[places] / CORRECTION)
        found.append((places + rows.start * weights.shape[1], steps))
    places, steps = (np.concatenate(each) for each in zip(*found, strict=True))
    if len(places) > support.count // 8 or (np.abs(steps) > 127).any():
        return None
    return packing.Corrections(places, steps.astype(np.int8))


def _deflated(parts: list[bytes], *, even: bool) -> bytes:
    """Raw deflate, with a table for each part; Huffman's code alone where nothing repeats."""
    strategy = zlib.Z_HUFFMAN_ONLY if even else zlib.Z_DEFAULT_STRATEGY
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 9, strategy)
    *first, last = parts
    found = [deflate.compress(part) + deflate.flush(zlib.Z_BLOCK) for part in first]
    return b"".join(found) + deflate.compress(last) + deflate.flush()
