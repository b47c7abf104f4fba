"""A map to bytes and back: the shortest of its codes, deflated."""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import FileError
from regard.views.encoding.factors import (
    MOST_FACTORS,
    Corrections,
    LogFactors,
    RoundedFactors,
    factors_of_scores,
    find_factors,
    pack_factors,
    round_terms,
    unpack_factors,
)
from regard.views.encoding.levels import (
    LEAST,
    TOLERANCE,
    byte_levels,
    from_levels,
    residuals,
    restore_levels,
)
from regard.views.encoding.support import EVERY, Support

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

HEADER = struct.Struct("<BBHIIf")  # code, support, rank, rows, columns, largest weight
BY_LEVEL, BY_FACTOR, BY_DIFFERENCE = 0, 1, 2
CORRECTION_STEP = 0.04  # of a logarithm
ALLOWED_ERROR = 0.029  # of a logarithm: less than log(1 + TOLERANCE)
SAMPLE_STEP = 5  # every fifth byte is counted to choose between levels and differences
SMALL_MAP = 1 << 15  # cells below which factors save too little for the time that they take
CELLS_PER_FACTOR = 1.7  # for each row and column: with fewer cells, factors are not shorter
SHORT_ENOUGH = 2.5  # cells for each byte of factors from which levels need not be tried
SMALLEST_WEIGHT = 1e-30  # the logarithms of smaller weights may have been lost by their dtype

assert np.expm1(ALLOWED_ERROR) < TOLERANCE


def encode(weights: Floats, factors: Sequence[LogFactors] | None = None) -> list[bytes]:
    """One blob for each head of weights (head query key), none of them negative.

    `factors` are those of each head, if they are known. Small maps are encoded all at once.
    """
    if weights[0].size < SMALL_MAP:
        return encode_by_levels(CellLevels.of(weights))
    known: Sequence[LogFactors | None] = factors or [None] * len(weights)
    return [_encode_shorter(*pair) for pair in zip(weights, known, strict=True)]


def _encode_shorter(weights: Floats, factors: LogFactors | None) -> bytes:
    """The shorter blob of one map: by factors or by levels."""
    by_factors = encode_by_factors(weights, factors)
    if by_factors is not None and SHORT_ENOUGH * len(by_factors) < weights.size:
        return by_factors
    (by_levels,) = encode_by_levels(CellLevels.of(weights[None]))
    return by_levels if by_factors is None else min(by_levels, by_factors, key=len)


def decode(blob: bytes, shape: tuple[int, int] | None = None) -> Floats:
    """The weights that `encode` wrote, each of 0.1% and more within 3%.

    With a `shape` a FileError is raised for a blob that is damaged or of another shape.
    """
    if shape is None:
        return _decode(memoryview(zlib.decompress(blob, wbits=-15)))
    rows, columns = shape
    try:
        # A few damaged bytes could make gigabytes: no code takes more than this.
        most = 1024 + 64 * (rows + columns) + 8 * rows * columns
        data = memoryview(zlib.decompressobj(wbits=-15).decompress(blob, most))
        fits = HEADER.unpack_from(data)[3:5] == shape
        with np.errstate(all="ignore"):
            weights = _decode(data) if fits else None
    except (zlib.error, struct.error, ValueError, IndexError, RuntimeError) as error:
        raise FileError(f"a map of {rows} x {columns} weights is damaged ({error})") from error
    if weights is None or not np.isfinite(weights).all() or weights.min(initial=0) < 0:
        raise FileError(f"a map of {rows} x {columns} weights is damaged or of another shape")
    return weights


def _decode(data: memoryview) -> Floats:
    """The weights of a blob that was inflated."""
    code, kind, rank, rows, columns, largest = HEADER.unpack_from(data)
    support, used = Support.read(kind, rows, columns, data[HEADER.size :])
    data = data[HEADER.size + used :]
    if code == BY_FACTOR:
        factors, corrections = unpack_factors(data, rank, rows, columns)
        logs = factors.logs()
        logs.numpy().reshape(-1)[corrections.places] += CORRECTION_STEP * corrections.steps
        weights: Floats = logs.exp_().clamp_(max=largest).numpy()
        if support.kind != EVERY:
            weights[~support.cells] = 0
        return weights
    levels = np.zeros((rows, columns), np.uint8)
    inside = support.cells
    levels[inside] = np.frombuffer(data, np.uint8, support.count)
    if code == BY_DIFFERENCE:
        levels = restore_levels(levels, inside)
    return np.minimum(from_levels(levels), np.float32(largest))


@dataclass(frozen=True, eq=False)
class CellLevels:
    """What is needed to encode maps (head query key) by levels, so that weights can be freed."""

    levels: Bytes
    supports: list[Support]
    largest: Floats

    @classmethod
    def of(cls, weights: Floats) -> "CellLevels":
        """Levels, supports and largest weights of some maps."""
        every = weights.min((1, 2)) > 0  # true of most maps that are not causal
        whole = Support.every(*weights.shape[1:])
        supports = [
            whole if full else Support.of(head) for full, head in zip(every, weights, strict=True)
        ]
        return cls(byte_levels(weights), supports, weights.max((1, 2)))


def encode_by_levels(cells: CellLevels) -> list[bytes]:
    """A blob for each map: one byte per cell, its level or the difference from its prediction."""
    differences = residuals(cells.levels)
    candidates = [
        [_supported_bytes(support, code[head]) for code in (cells.levels, differences)]
        for head, support in enumerate(cells.supports)
    ]
    codes, even = _choose_codes(candidates)
    heads = zip(cells.supports, candidates, codes, cells.largest, even, strict=True)
    return [
        _deflate([_header(support, code, largest) + pair[code // 2].tobytes()], even=is_even)
        for support, pair, code, largest, is_even in heads
    ]


def _supported_bytes(support: Support, levels: Bytes) -> Bytes:
    """The bytes of the cells that the support has, row by row."""
    return (levels if support.kind == EVERY else levels[support.cells]).reshape(-1)


def _header(support: Support, code: int, largest: np.float32) -> bytes:
    """The first bytes of a blob by levels: code, sizes, largest weight and support."""
    sizes = len(support.starts), support.columns
    return HEADER.pack(code, support.kind, 0, *sizes, largest) + support.to_bytes()


def _choose_codes(candidates: list[list[Bytes]]) -> tuple[list[int], list[bool]]:
    """For each map the code with less entropy, and whether no byte value of it is frequent."""
    counts = np.array(
        [[np.bincount(code[::SAMPLE_STEP], minlength=256) for code in pair] for pair in candidates]
    )
    totals = counts.sum(-1, keepdims=True)
    shares = counts / np.maximum(1, totals)
    bits = -(shares * np.log2(shares, out=np.zeros_like(shares), where=counts > 0)).sum(-1)
    by_difference = bits[:, 1] < bits[:, 0]
    chosen = np.take_along_axis(counts, by_difference[:, None, None].astype(int), 1)[:, 0]
    even = chosen.max(-1) < totals[:, 0, 0] // 4
    return [BY_DIFFERENCE if better else BY_LEVEL for better in by_difference], even.tolist()


def encode_by_factors(weights: Floats, known: LogFactors | None) -> bytes | None:
    """The blob of a map by factors; None where they would not be shorter or not exact enough."""
    rows, columns = weights.shape
    support = Support.of(weights)
    most = min(MOST_FACTORS, int(support.count / (CELLS_PER_FACTOR * (rows + columns))))
    if known is not None and known.keys.shape[1] > most:
        return None
    factors = _rounded_factors(weights, support, known, most)
    if factors is None or len(factors.steps) > most:
        return None
    factors = round_terms(factors)
    corrections = _find_corrections(weights, support, factors)
    if corrections is None:
        return None
    header = HEADER.pack(
        BY_FACTOR, support.kind, len(factors.steps), rows, columns, weights.max(initial=0)
    )
    parts = [header + support.to_bytes(), *pack_factors(factors, corrections)]
    longest = np.frombuffer(max(parts, key=len), np.uint8)
    even = np.bincount(longest, minlength=256).max() < len(longest) // 4
    return _deflate(parts, even=bool(even))


def _rounded_factors(
    weights: Floats, support: Support, known: LogFactors | None, most: int
) -> RoundedFactors | None:
    """The factors of a map, from its scores if known, else found; None if there are none."""
    if known is not None:
        return factors_of_scores(known)
    if support.kind != EVERY or weights.min() < SMALLEST_WEIGHT:
        return None
    return find_factors(torch.from_numpy(weights).log(), most)


def _find_corrections(
    weights: Floats, support: Support, factors: RoundedFactors
) -> Corrections | None:
    """What to add where the factors are too far off; None if too many cells need it."""
    inside = None if support.kind == EVERY else support.cells
    corrections = []
    for rows, logs in factors.blocks():
        true = torch.from_numpy(weights[rows])
        error = true.log().sub_(logs).numpy()
        # Few cells are far off, and fewer of these are large enough to matter.
        far = (error > ALLOWED_ERROR) | (error < -ALLOWED_ERROR)
        if inside is not None:
            far &= inside[rows]
        places = np.flatnonzero(far)
        large = true.numpy().reshape(-1)[places] >= LEAST
        large |= logs.numpy().reshape(-1)[places] > math.log(LEAST) + ALLOWED_ERROR
        places = places[large]
        steps = np.rint(error.reshape(-1)[places] / CORRECTION_STEP)
        corrections.append((places + rows.start * weights.shape[1], steps))
    places, steps = (np.concatenate(parts) for parts in zip(*corrections, strict=True))
    if len(places) > support.count // 8 or (np.abs(steps) > 127).any():
        return None
    return Corrections(places, steps.astype(np.int8))


def _deflate(parts: list[bytes], *, even: bool) -> bytes:
    """Raw deflate with a Huffman table for each part; without matching where bytes are even."""
    strategy = zlib.Z_HUFFMAN_ONLY if even else zlib.Z_DEFAULT_STRATEGY
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 9, strategy)
    *first, last = parts
    blocks = [deflate.compress(part) + deflate.flush(zlib.Z_BLOCK) for part in first]
    return b"".join(blocks) + deflate.compress(last) + deflate.flush()
