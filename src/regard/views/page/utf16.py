"""Bytes as characters of a UTF-16 page: two in each, whatever the page may not hold escaped."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ESCAPE, TURN = 0xE000, 0x8000
Units = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Characters:
    """Bytes as 16-bit numbers, and the places of those that a page may not hold as they are."""

    numbers: Units
    wrong: NDArray[np.int64]

    @classmethod
    def of(cls, data: bytes) -> "Characters":
        """The characters of some bytes, filled up to an even number."""
        numbers = np.frombuffer(data + b"\0" if len(data) % 2 else data, "<u2")
        return cls(numbers, np.flatnonzero(_forbidden(numbers)))

    def __len__(self) -> int:
        return len(self.numbers) + len(self.wrong)

    def units(self) -> Units:
        """The 16-bit units of the text that stands for the bytes."""
        escapes = self.wrong + np.arange(len(self.wrong))
        plain = np.ones(len(self), bool)
        plain[escapes] = False
        units = np.full(len(self), ESCAPE, np.uint16)
        units[plain] = self.numbers
        units[escapes + 1] ^= TURN
        return units


def from_units(units: Units, length: int) -> bytes:
    """The bytes that a text stands for, `length` of them."""
    escapes = np.flatnonzero(units == ESCAPE)
    numbers = units.copy()
    numbers[escapes + 1] ^= TURN
    return np.delete(numbers, escapes).astype("<u2").tobytes()[:length]


def _forbidden(numbers: Units) -> NDArray[np.bool_]:
    """What a page would change or end at: NUL, CR, `<`, surrogates, marks of byte order."""
    wrong = numbers - np.uint16(0xD800) <= ESCAPE - 0xD800
    wrong |= numbers >= 0xFFFE
    for each in (0x0000, 0x000D, 0x003C, 0xFEFF):
        wrong |= numbers == each
    return wrong
