"""Bytes as characters of a UTF-16 page, two bytes in each character.

Base64 in UTF-8 would take 33% more. Sixteen-bit units that HTML would change or stop at, such as
`<` or NUL, are escaped: ESCAPE, then the unit with its highest bit flipped.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ESCAPE, FLIP = 0xE000, 0x8000
Units = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Characters:
    """Bytes as 16-bit numbers, and the indices of those that must be escaped."""

    numbers: Units
    forbidden: NDArray[np.int64]

    @classmethod
    def of(cls, data: bytes) -> "Characters":
        """The characters of some bytes, padded to an even number."""
        numbers = np.frombuffer(data + b"\0" if len(data) % 2 else data, "<u2")
        return cls(numbers, np.flatnonzero(_is_forbidden(numbers)))

    def __len__(self) -> int:
        return len(self.numbers) + len(self.forbidden)

    def units(self) -> Units:
        """The 16-bit units of the text that stands for the bytes, escapes included."""
        escapes = self.forbidden + np.arange(len(self.forbidden))
        plain = np.ones(len(self), bool)
        plain[escapes] = False
        units = np.full(len(self), ESCAPE, np.uint16)
        units[plain] = self.numbers
        units[escapes + 1] ^= FLIP
        return units


def from_units(units: Units, length: int) -> bytes:
    """The bytes that a text stands for, `length` of them."""
    escapes = np.flatnonzero(units == ESCAPE)
    numbers = units.copy()
    numbers[escapes + 1] ^= FLIP
    return np.delete(numbers, escapes).astype("<u2").tobytes()[:length]


def _is_forbidden(numbers: Units) -> NDArray[np.bool_]:
    """Which units HTML changes or stops at: NUL, CR, `<`, surrogates, byte order marks."""
    forbidden = numbers - np.uint16(0xD800) <= ESCAPE - 0xD800
    forbidden |= numbers >= 0xFFFE
    for unit in (0x0000, 0x000D, 0x003C, 0xFEFF):
        forbidden |= numbers == unit
    return forbidden
