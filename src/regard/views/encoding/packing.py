"""Factors and their corrections as bytes: high parts for Huffman's code, low bits as they are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.views.encoding.factors import Factors, Floats, Integers

SPREAD = 8.0  # the deviation of high parts: enough for low bits to be as good as chance


@dataclass(frozen=True, eq=False)
class Corrections:
    """Cells of the map, counted row by row, and how many steps their logarithms are off."""

    places: NDArray[np.int64]
    steps: NDArray[np.int8]


def settled(factors: Factors) -> Factors:
    """The factors with the terms of rows and columns as they will be read back."""
    rows, columns = (_terms(each) for each in (factors.rows, factors.columns))
    return replace(factors, rows=rows, columns=columns)


def pack(factors: Factors, corrections: Corrections) -> list[bytes]:
    """The bytes that `unpack` reads, in parts that are each even in themselves."""
    sides = factors.left, factors.right
    shifts = [_shifts(each) for each in sides]
    gaps = np.diff(corrections.places, prepend=0).astype("<u4")
    terms = [_packed_terms(each) for each in (factors.rows, factors.columns)]
    numbers = [factors.steps.astype("<f4"), *(each.astype(np.uint8) for each in shifts)]
    pairs = list(zip(sides, shifts, strict=True))
    return [
        b"".join(terms) + b"".join(each.tobytes() for each in numbers),
        b"".join((side >> shift[:, None]).astype(np.int8).tobytes() for side, shift in pairs),
        b"".join(_low_bits(*pair) for pair in pairs),
        np.array(len(gaps), "<u4").tobytes() + _planes(gaps) + corrections.steps.tobytes(),
    ]


def unpack(data: memoryview, rank: int, rows: int, columns: int) -> tuple[Factors, Corrections]:
    """What `pack` wrote."""
    read = _Reader(data)
    terms = [read.terms(length) for length in (rows, columns)]
    steps = read.take("<f4", rank).astype(np.float32)
    shifts = [read.take("u1", rank).astype(np.int32) for _ in range(2)]
    sides = [
        read.take("i1", rank * length).reshape(rank, length).astype(np.int32)
        for length in (rows, columns)
    ]
    for side, shift in zip(sides, shifts, strict=True):
        read.low_bits(side, shift)
    count = int(read.take("<u4", 1)[0])
    gaps = read.take("u1", 4 * count).reshape(4, count).T.copy().view("<u4").reshape(-1)
    places = np.cumsum(gaps, dtype=np.int64)
    factors = Factors(terms[0], terms[1], sides[0], sides[1], steps)
    return factors, Corrections(places, read.take("i1", count))


class _Reader:
    """Takes arrays off the front of some bytes."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._place = data, 0

    def take(self, dtype: str, count: int) -> NDArray[Any]:
        found: NDArray[Any] = np.frombuffer(self._data, dtype, count, self._place)
        self._place += found.nbytes
        return found

    def terms(self, length: int) -> Floats:
        base, step = self.take("<f4", 2)
        planes = self.take("u1", 2 * length).reshape(2, length).astype(np.float32)
        found: Floats = base + step * (planes[0] + 256 * planes[1])
        return found

    def low_bits(self, side: Integers, shifts: Integers) -> None:
        length = side.shape[1]
        for row, shift in zip(side, shifts, strict=True):
            row <<= shift
            for place in range(shift):
                plane = self.take("u1", -(-length // 8))
                bits = np.unpackbits(plane, count=length, bitorder="little")
                row += bits.astype(np.int32) << place


def _steps(terms: Floats) -> tuple[np.float32, np.float32, NDArray[np.uint16]]:
    base = terms.min(initial=np.inf)
    step = np.float32(max(float(np.ptp(terms)), 1e-6) / 65535)
    return base, step, np.rint((terms - base) / step).clip(0, 65535).astype("<u2")


def _terms(terms: Floats) -> Floats:
    base, step, numbers = _steps(terms)
    return base + step * numbers.astype(np.float32)


def _packed_terms(terms: Floats) -> bytes:
    base, step, numbers = _steps(terms)
    return np.array([base, step], "<f4").tobytes() + _planes(numbers)


def _planes(numbers: NDArray[np.unsignedinteger]) -> bytes:
    """All first bytes, then all second ones, and so on: each plane is more even in itself."""
    return numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T.tobytes()


def _shifts(side: Integers) -> Integers:
    """How many low bits to part from each factor: the rest fits a byte, and is spread alike."""
    most, usual = np.abs(side).max(axis=1, initial=1), side.std(axis=1) + 1e-9
    to_fit, alike = np.ceil(np.log2(most + 1)) - 7, np.rint(np.log2(usual / SPREAD))
    shifts: Integers = np.maximum(0, np.maximum(to_fit, alike)).astype(np.int32)
    return shifts


def _low_bits(side: Integers, shifts: Integers) -> bytes:
    planes = [
        np.packbits((side >> bit) & 1, axis=1, bitorder="little")
        for bit in range(shifts.max(initial=0))
    ]
    ordered = (planes[bit][row] for row, shift in enumerate(shifts) for bit in range(shift))
    return b"".join(plane.tobytes() for plane in ordered)
