"""Levels as differences from what their neighbours let one expect (Weinberger et al. 2000)."""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def residuals(levels: Bytes) -> Bytes:
    """Each level of a map, or of many, minus its prediction, modulo 256; outside all is 0."""
    *many, rows, columns = levels.shape
    framed = np.zeros((*many, rows + 1, columns + 1), np.int16)
    framed[..., 1:, 1:] = levels
    above, left, corner = framed[..., :-1, 1:], framed[..., 1:, :-1], framed[..., :-1, :-1]
    expected = _expected(above, left, corner)
    return (levels - expected).astype(np.uint8)


def restored(differences: Bytes, inside: NDArray[np.bool_]) -> Bytes:
    """The levels of differences; cells that are not inside are 0.

    A cell needs those above and to the left of it, so all cells of a diagonal are done at once.
    """
    rows, columns = differences.shape
    width = columns + 1
    levels = np.zeros((rows + 1, width), np.int16)
    flat, deltas, kept = levels.reshape(-1), np.zeros_like(levels), np.zeros_like(levels)
    deltas[1:, 1:], kept[1:, 1:] = differences, inside
    deltas, kept = deltas.reshape(-1), kept.reshape(-1)
    for diagonal in range(rows + columns - 1):
        first = max(0, diagonal - columns + 1)
        down = np.arange(first, min(rows, diagonal + 1))
        places = (down + 1) * width + diagonal - down + 1
        expected = _expected(flat[places - width], flat[places - 1], flat[places - width - 1])
        flat[places] = ((deltas[places] + expected) & 255) * kept[places]
    return levels[1:, 1:].astype(np.uint8)


def _expected(
    above: NDArray[np.int16], left: NDArray[np.int16], corner: NDArray[np.int16]
) -> NDArray[np.int16]:
    """The median of the cell above, the one to the left, and their sum less the corner."""
    low, high = np.minimum(above, left), np.maximum(above, left)
    expected: NDArray[np.int16] = np.clip(above + left - corner, low, high)
    return expected
