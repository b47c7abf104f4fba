"""Levels as differences from what their neighbours let one expect (Weinberger et al. 2000)."""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def residuals(levels: Bytes) -> Bytes:
    """Each level of maps (head query key) minus its prediction, modulo 256; outside all is 0."""
    heads, rows, columns = levels.shape
    framed = np.zeros((heads, rows + 1, columns + 1), np.uint8)
    framed[:, 1:, 1:] = levels
    return levels - _expected(framed[:, :-1, 1:], framed[:, 1:, :-1], framed[:, :-1, :-1])


def restored(differences: Bytes, inside: NDArray[np.bool_]) -> Bytes:
    """The levels of differences; cells that are not inside are 0.

    A cell needs those above and to the left of it, so all cells of a diagonal are done at once.
    """
    rows, columns = differences.shape
    width = columns + 1
    levels = np.zeros((rows + 1, width), np.uint8)
    flat, deltas, kept = levels.reshape(-1), np.zeros_like(levels), np.zeros_like(levels)
    deltas[1:, 1:], kept[1:, 1:] = differences, inside
    deltas, kept = deltas.reshape(-1), kept.reshape(-1)
    for diagonal in range(rows + columns - 1):
        first = max(0, diagonal - columns + 1)
        down = np.arange(first, min(rows, diagonal + 1))
        places = (down + 1) * width + diagonal - down + 1
        expected = _expected(flat[places - width], flat[places - 1], flat[places - width - 1])
        flat[places] = (deltas[places] + expected) * kept[places]
    return levels[1:, 1:]


def _expected(above: Bytes, left: Bytes, corner: Bytes) -> Bytes:
    """The median of the cell above, the one to the left, and their sum less the corner.

    With the corner cut to what lies between the two, the sum less the corner is the median, and
    bytes may wrap around on the way.
    """
    low, high = np.minimum(above, left), np.maximum(above, left)
    between = np.minimum(np.maximum(corner, low, out=low), high, out=high)
    return above + left - between
