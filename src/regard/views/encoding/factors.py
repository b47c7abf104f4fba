"""The logarithm of a map as r_i + c_j + sum_k a_ik b_jk: what dot-product attention computes.

Scores are products of queries and keys, so the rank of the logarithm of a head's weights is at most
the width of the head. Stored as factors it costs (rows + columns) x rank numbers instead of
rows x columns, and each cell is off by a sum of many small roundings.

`factors_of_scores` takes the queries and keys where they are known; `find_factors` finds factors of
weights alone by a random sketch. `pack_factors` and `unpack_factors` write and read their bytes:
high parts of whole numbers, which Huffman's code shortens, then low bits as they are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]

ROUNDING_NOISE = 0.009  # standard deviation that roundings may add to a logarithm
MISSING_NOISE = 0.003  # standard deviation that found factors may leave unexplained
SKETCH_STEP = 40  # columns that a sketch grows by
PROBES = 4  # further columns that only test whether the sketch explains the map
BLOCK = 1 << 15  # logarithms that are computed at once, about what a cache holds
MOST_FACTORS = 136  # the largest rank that is looked for
HIGH_SPREAD = 8.0  # standard deviation of high parts: enough for low bits to be as good as random


@dataclass(frozen=True, eq=False)
class LogFactors:
    """Factors of the logarithm of one head's weights: log w_ij = rows_i + queries_i . keys_j."""

    queries: Floats
    keys: Floats
    rows: Floats


@dataclass(frozen=True, eq=False)
class RoundedFactors:
    """Factors in whole numbers of steps; `steps` are the products of both sides' step sizes."""

    rows: Floats
    columns: Floats
    left: Integers
    right: Integers
    steps: Floats

    def logs(self) -> Tensor:
        """The logarithms that the factors stand for."""
        return torch.cat([logs for _, logs in self.blocks()])

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """The logarithms some rows at a time, with the slice of rows."""
        left = torch.from_numpy(self.left).float() * torch.from_numpy(self.steps)[:, None]
        right = torch.from_numpy(self.right).float()
        lines, columns = torch.from_numpy(self.rows)[:, None], torch.from_numpy(self.columns)
        high = max(1, BLOCK // max(1, len(columns)))
        for start in range(0, max(1, len(lines)), high):
            rows = slice(start, start + high)
            yield rows, (lines[rows] + columns).addmm_(left[:, rows].T, right)


def factors_of_scores(factors: LogFactors) -> RoundedFactors:
    """Rounded factors of a map whose queries and keys are known."""
    queries, keys, rows = (
        torch.from_numpy(part) for part in (factors.queries, factors.keys, factors.rows)
    )
    # Means move into the terms of columns and rows: the sum stays, and the factors get smaller.
    columns = keys @ queries.mean(0)
    queries = queries - queries.mean(0)
    rows = rows + queries @ keys.mean(0)
    keys = keys - keys.mean(0)
    basis = _orthonormal_basis(queries)
    return _rotate_and_round(rows, columns, basis, (basis.T @ queries) @ keys.T)


def find_factors(logs: Tensor, most: int) -> RoundedFactors | None:
    """Rounded factors of a map of logarithms if its rank is at most `most`, else None."""
    rows = logs.mean(1)
    columns = (logs - rows[:, None]).mean(0)
    rest = logs - rows[:, None] - columns
    basis = _sketch_basis(rest, most)
    if basis is None:
        return None
    return _rotate_and_round(rows, columns, basis, basis.T @ rest)


def _rotate_and_round(
    rows: Tensor, columns: Tensor, basis: Tensor, inner: Tensor
) -> RoundedFactors:
    """Rounded factors of basis @ inner, rotated so that each is orthogonal to the others."""
    squares, rotation = torch.linalg.eigh(_gram_matrix(inner.T))
    # eigh sorts in ascending order, and the largest are wanted first.
    sizes, rotation = squares.flip(0).clamp(min=1e-12).sqrt().float(), rotation.flip(1).float()
    return _round_factors(
        rows, columns, basis @ rotation, sizes, (rotation.T @ inner) / sizes[:, None]
    )


def _sketch_basis(rest: Tensor, most: int) -> Tensor | None:
    """Orthonormal columns that span a matrix, found by random sketches (Halko et al. 2011)."""
    generator = torch.Generator().manual_seed(0)
    sketch = rest.new_empty(len(rest), 0)
    while sketch.shape[1] < min(most, *rest.shape):
        more = rest @ torch.randn(rest.shape[1], SKETCH_STEP + PROBES, generator=generator)
        probe, sketch = more[:, :PROBES], torch.cat([sketch, more[:, PROBES:]], dim=1)
        basis = _orthonormal_basis(sketch)
        missing = probe - basis @ (basis.T @ probe)
        if float(missing.square().mean() / rest.shape[1]) < MISSING_NOISE**2:
            return basis
    return None


def _orthonormal_basis(columns: Tensor) -> Tensor:
    """Orthonormal columns that span these, from their Gram matrix, which is small."""
    squares, rotation = torch.linalg.eigh(_gram_matrix(columns))
    significant = squares > squares[-1] * 1e-10
    basis: Tensor = (
        columns.double() @ (rotation[:, significant] / squares[significant].sqrt())
    ).float()
    return basis


def _gram_matrix(columns: Tensor) -> Tensor:
    """The products of all pairs of columns, in double precision: they square small numbers."""
    exact = columns.double()
    return exact.T @ exact


def _round_factors(
    rows: Tensor, columns: Tensor, left: Tensor, sizes: Tensor, right: Tensor
) -> RoundedFactors:
    """Factors in steps so large that all add the same noise; those below the noise are dropped."""
    height, width = len(rows), len(columns)
    count = len(sizes)
    while True:  # fewer factors may each be coarser, which may drop more of them
        share = ROUNDING_NOISE * math.sqrt(6 / max(1, count))
        needed = int((sizes[:count] > 0.4 * share * math.sqrt(height * width)).sum())
        if needed == count:
            break
        count = needed
    sizes = sizes[:count]
    # The step of one side is its share of the noise over the mean size of the other side.
    left_steps, right_steps = share * math.sqrt(width) / sizes, share * math.sqrt(height) / sizes
    return RoundedFactors(
        rows.numpy(),
        columns.numpy(),
        (left[:, :count] / left_steps).T.round().int().contiguous().numpy(),
        (right[:count] / right_steps[:, None]).round().int().numpy(),
        (left_steps * right_steps * sizes).numpy(),
    )


@dataclass(frozen=True, eq=False)
class Corrections:
    """Cells of a map, numbered row by row, and by how many steps their logarithms are off."""

    places: NDArray[np.int64]
    steps: NDArray[np.int8]


def round_terms(factors: RoundedFactors) -> RoundedFactors:
    """The factors with the terms of rows and columns as they will be read back from bytes."""
    rows, columns = (_rounded_terms(terms) for terms in (factors.rows, factors.columns))
    return replace(factors, rows=rows, columns=columns)


def pack_factors(factors: RoundedFactors, corrections: Corrections) -> list[bytes]:
    """The bytes that `unpack_factors` reads, in parts whose bytes are distributed alike."""
    sides = factors.left, factors.right
    shifts = [_low_bit_counts(side) for side in sides]
    gaps = np.diff(corrections.places, prepend=0).astype("<u4")
    terms = [_pack_terms(side) for side in (factors.rows, factors.columns)]
    numbers = [factors.steps.astype("<f4"), *(shift.astype(np.uint8) for shift in shifts)]
    pairs = list(zip(sides, shifts, strict=True))
    return [
        b"".join(terms) + b"".join(array.tobytes() for array in numbers),
        b"".join((side >> shift[:, None]).astype(np.int8).tobytes() for side, shift in pairs),
        b"".join(_pack_low_bits(*pair) for pair in pairs),
        np.array(len(gaps), "<u4").tobytes() + _byte_planes(gaps) + corrections.steps.tobytes(),
    ]


def unpack_factors(
    data: memoryview, rank: int, rows: int, columns: int
) -> tuple[RoundedFactors, Corrections]:
    """What `pack_factors` wrote."""
    read = _ArrayReader(data)
    terms = [read.terms(length) for length in (rows, columns)]
    steps = read.take("<f4", rank).astype(np.float32)
    shifts = [read.take("u1", rank).astype(np.int32) for _ in range(2)]
    sides = [
        read.take("i1", rank * length).reshape(rank, length).astype(np.int32)
        for length in (rows, columns)
    ]
    for side, shift in zip(sides, shifts, strict=True):
        read.add_low_bits(side, shift)
    count = int(read.take("<u4", 1)[0])
    gaps = read.take("u1", 4 * count).reshape(4, count).T.copy().view("<u4").reshape(-1)
    places = np.cumsum(gaps, dtype=np.int64)
    factors = RoundedFactors(terms[0], terms[1], sides[0], sides[1], steps)
    return factors, Corrections(places, read.take("i1", count))


class _ArrayReader:
    """Reads arrays one after the other from some bytes."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._position = data, 0

    def take(self, dtype: str, count: int) -> NDArray[Any]:
        """The next `count` numbers."""
        array: NDArray[Any] = np.frombuffer(self._data, dtype, count, self._position)
        self._position += array.nbytes
        return array

    def terms(self, length: int) -> Floats:
        """The terms of rows or columns: a base, a step, and 16-bit numbers of steps."""
        base, step = self.take("<f4", 2)
        planes = self.take("u1", 2 * length).reshape(2, length).astype(np.float32)
        terms: Floats = base + step * (planes[0] + 256 * planes[1])
        return terms

    def add_low_bits(self, side: Integers, shifts: Integers) -> None:
        """Shift the high parts up, in place, and add the low bits that follow."""
        length = side.shape[1]
        for row, shift in zip(side, shifts, strict=True):
            row <<= shift
            for bit in range(shift):
                plane = self.take("u1", -(-length // 8))
                bits = np.unpackbits(plane, count=length, bitorder="little")
                row += bits.astype(np.int32) << bit


def _quantise_terms(terms: Floats) -> tuple[np.float32, np.float32, NDArray[np.uint16]]:
    """Terms as a base, a step and 16-bit numbers of steps."""
    base = terms.min(initial=np.inf)
    step = np.float32(max(float(np.ptp(terms)), 1e-6) / 65535)
    return base, step, np.rint((terms - base) / step).clip(0, 65535).astype("<u2")


def _rounded_terms(terms: Floats) -> Floats:
    """Terms as they are after they were quantised."""
    base, step, numbers = _quantise_terms(terms)
    return base + step * numbers.astype(np.float32)


def _pack_terms(terms: Floats) -> bytes:
    """The bytes that `_ArrayReader.terms` reads."""
    base, step, numbers = _quantise_terms(terms)
    return np.array([base, step], "<f4").tobytes() + _byte_planes(numbers)


def _byte_planes(numbers: NDArray[np.unsignedinteger]) -> bytes:
    """All first bytes, then all second ones, and so on: each plane deflates better alone."""
    return numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T.tobytes()


def _low_bit_counts(side: Integers) -> Integers:
    """How many low bits each factor has: the rest fits a byte, and all rests are spread alike."""
    most, usual = np.abs(side).max(axis=1, initial=1), side.std(axis=1) + 1e-9
    to_fit, alike = np.ceil(np.log2(most + 1)) - 7, np.rint(np.log2(usual / HIGH_SPREAD))
    shifts: Integers = np.maximum(0, np.maximum(to_fit, alike)).astype(np.int32)
    return shifts


def _pack_low_bits(side: Integers, shifts: Integers) -> bytes:
    """The low bits of all factors, one bit plane after the other."""
    planes = [
        np.packbits((side >> bit) & 1, axis=1, bitorder="little")
        for bit in range(shifts.max(initial=0))
    ]
    ordered = (planes[bit][row] for row, shift in enumerate(shifts) for bit in range(shift))
    return b"".join(plane.tobytes() for plane in ordered)
