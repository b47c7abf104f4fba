"""A map to bytes and back: the shorter of its two codes, deflated."""

import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.views.code import packing
from regard.views.code.factors import MOST, Factors, Scores, factorise, find
from regard.views.code.levels import LEAST, TOLERANCE, byte_levels, from_levels
from regard.views.code.prediction import residuals, restored
from regard.views.code.support import EVERY, Support

Floats = NDArray[np.float32]

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
        return by_level(weights)
    known: Sequence[Scores | None] = scores or [None] * len(weights)
    return [_shorter(*pair) for pair in zip(weights, known, strict=True)]


def _shorter(weights: Floats, scores: Scores | None) -> bytes:
    """The shorter code of a map."""
    factors = by_factor(weights, scores)
    if factors is not None and SHORT * len(factors) < weights.size:
        return factors
    (levels,) = by_level(weights[None])
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


def by_level(weights: Floats) -> list[bytes]:
    """The maps (head query key), cell by cell."""
    levels = byte_levels(weights)
    differences = residuals(levels)
    every = weights.min((1, 2)) > 0  # as in most maps that are not causal
    largest = weights.max((1, 2))
    found = []
    for index in range(len(weights)):
        support = Support.every(*weights.shape[1:]) if every[index] else Support.of(weights[index])
        cells = slice(None) if support.kind == EVERY else support.cells
        found.append(
            _cells(support, levels[index][cells], differences[index][cells], largest[index])
        )
    return found


def _cells(
    support: Support, levels: NDArray[np.uint8], differences: NDArray[np.uint8], largest: np.float32
) -> bytes:
    """The blob of the cells of a map, as levels or as differences, which may be shorter."""
    code, chosen = BY_LEVEL, levels.reshape(-1)
    if _bits(differences.reshape(-1)[::SAMPLED]) < _bits(chosen[::SAMPLED]):
        code, chosen = BY_DIFFERENCE, differences
    head = HEAD.pack(code, support.kind, 0, len(support.starts), support.columns, largest)
    return _deflated([head + support.to_bytes(), chosen.tobytes()])


def _bits(data: NDArray[np.uint8]) -> float:
    """About how many bits Huffman's code takes for each of some bytes."""
    counts = np.bincount(data, minlength=256)
    shares = counts[counts > 0] / max(1, data.size)
    return float(-(shares * np.log2(shares)).sum())


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
    return _deflated([head + support.to_bytes(), *packing.pack(factors, corrections)])


def _factors(weights: Floats, support: Support, scores: Scores | None, most: int) -> Factors | None:
    if scores is not None:
        return factorise(scores)
    if support.kind != EVERY or weights.min() < SMALLEST:
        return None
    return find(torch.from_numpy(weights).log(), most)


def _corrections(weights: Floats, support: Support, factors: Factors) -> packing.Corrections | None:
    """What to add where the factors are too far off; None if they are nowhere near."""
    logs, true = factors.logs(), torch.from_numpy(weights)
    wrong = true.log().sub_(logs).numpy()
    # few are far off, and fewer of these are large enough to matter
    far = (wrong > ALLOWED) | (wrong < -ALLOWED)
    if support.kind != EVERY:
        far &= support.cells
    places = np.flatnonzero(far)
    least = math.log(LEAST)
    large = (weights.reshape(-1)[places] >= LEAST) | (
        logs.numpy().reshape(-1)[places] > least + ALLOWED
    )
    places = places[large]
    steps = np.rint(wrong.reshape(-1)[places] / CORRECTION)
    if len(places) > support.count // 8 or (np.abs(steps) > 127).any():
        return None
    return packing.Corrections(places, steps.astype(np.int8))


def _deflated(parts: list[bytes]) -> bytes:
    """Raw deflate, with a table for each part; Huffman's code alone where nothing repeats."""
    longest = np.frombuffer(max(parts, key=len), np.uint8)
    even = np.bincount(longest, minlength=256).max() < len(longest) // 4
    strategy = zlib.Z_HUFFMAN_ONLY if even else zlib.Z_DEFAULT_STRATEGY
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 9, strategy)
    found = [deflate.compress(part) + deflate.flush(zlib.Z_BLOCK) for part in parts]
    return b"".join(found) + deflate.flush()
