"""Bytes as characters of a UTF-16 page: two in each, whatever the page may not hold escaped."""

import numpy as np
from numpy.typing import NDArray

ESCAPE, TURN = 0xE000, 0x8000
Units = NDArray[np.uint16]


def to_units(data: bytes) -> Units:
    """The 16-bit units of the text that stands for these bytes."""
    even = data + b"\0" * (len(data) % 2)
    numbers = np.frombuffer(even, "<u2")
    wrong = _forbidden(numbers)
    units = np.repeat(numbers, wrong + np.uint8(1))
    places = np.flatnonzero(wrong)
    places += np.arange(len(places))
    units[places + 1] = units[places] ^ TURN
    units[places] = ESCAPE
    return units


def count_units(data: bytes) -> int:
    """How many units the text of these bytes has."""
    even = data + b"\0" * (len(data) % 2)
    numbers = np.frombuffer(even, "<u2")
    return len(numbers) + int(_forbidden(numbers).sum())


def from_units(units: Units, length: int) -> bytes:
    """The bytes that a text stands for, `length` of them."""
    escapes = np.flatnonzero(units == ESCAPE)
    numbers = units.copy()
    numbers[escapes + 1] ^= TURN
    return np.delete(numbers, escapes).astype("<u2").tobytes()[:length]


def _forbidden(numbers: Units) -> NDArray[np.bool_]:
    """What a page would change or end at: NUL, CR, `<`, surrogates, marks of byte order."""
    wrong = (numbers >= 0xD800) & (numbers <= ESCAPE)
    for each in (0x0000, 0x000D, 0x003C, 0xFEFF, 0xFFFE, 0xFFFF):
        wrong |= numbers == each
    return wrong
