"""Colours of weights and heads, even in lightness, safe for colour-blind eyes."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colours = NDArray[np.uint8]

Stops = tuple[tuple[float, float, float], ...]

# lightness, chroma and hue in OKLCH (Ottosson 2020); lightness changes by equal steps
_LIGHT: Stops = (
    (0.99, 0.005, 220),
    (0.81, 0.085, 222),
    (0.63, 0.13, 240),
    (0.45, 0.15, 260),
    (0.27, 0.12, 275),
)
_DARK: Stops = (
    (0.21, 0.03, 265),
    (0.40, 0.11, 262),
    (0.59, 0.12, 230),
    (0.78, 0.12, 185),
    (0.97, 0.09, 105),
)
# blue and orange part for every kind of eye
_SIGNED: Stops = (
    (0.40, 0.14, 258),
    (0.69, 0.09, 258),
    (0.98, 0.0, 258),
    (0.98, 0.0, 48),
    (0.725, 0.09, 48),
    (0.47, 0.13, 48),
)
_SIGNED_DARK: Stops = (
    (0.80, 0.14, 258),
    (0.52, 0.09, 258),
    (0.24, 0.0, 258),
    (0.24, 0.0, 48),
    (0.48, 0.09, 48),
    (0.72, 0.13, 48),
)
_HALVES = (0.0, 0.25, 0.5, 0.5, 0.75, 1.0)
_TO_CONE = np.array(
    [[0.3963377774, 0.2158037573], [-0.1055613458, -0.0638541728], [-0.0894841775, -1.2914855480]]
)
_TO_RED = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)

HEADS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b8860b",
    "#56b4e9",
    "#882255",
    "#44aa99",
    "#332288",
    "#999933",
    "#aa4499",
    "#117733",
)


def light(shades: ArrayLike) -> Colours:
    """Red, green and blue of shades from 0 to 1 on paper: the more, the darker."""
    return _looked_up(shades, _LIGHT)


def dark(shades: ArrayLike) -> Colours:
    """Red, green and blue of shades from 0 to 1 on a dark screen: the more, the brighter."""
    return _looked_up(shades, _DARK)


def signed(shades: ArrayLike, *, on_dark: bool = False) -> Colours:
    """Red, green and blue of shades from -1 (blue) through 0 to 1 (orange)."""
    return _looked_up((np.asarray(shades) + 1) / 2, _SIGNED_DARK if on_dark else _SIGNED)


def head_colour(head: int) -> str:
    """The colour of a head's lines; the thirteenth is as the first."""
    return HEADS[head % len(HEADS)]


def is_dim(colour: Sequence[int] | Colours) -> bool:
    """Whether light letters are read better than dark ones on a colour."""
    red, green, blue = (float(each) / 255 for each in colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.55


def _looked_up(shades: ArrayLike, stops: Stops) -> Colours:
    table = _table(stops)
    places = np.clip(np.asarray(shades, np.float64), 0, 1) * (len(table) - 1)
    found: Colours = table[np.rint(places).astype(int)]
    return found


@cache
def _table(stops: Stops) -> Colours:
    """Colours between the stops, an odd number of them, so that one lies in the middle."""
    at = np.linspace(0, 1, 257)
    places = _HALVES if len(stops) == len(_HALVES) else np.linspace(0, 1, len(stops))
    lightness, chroma, hue = np.array(stops).T
    mixed = chroma * np.exp(1j * np.radians(hue))
    real, imaginary = (np.interp(at, places, part) for part in (mixed.real, mixed.imag))
    return _rgb(np.interp(at, places, lightness), real + 1j * imaginary)


def _rgb(lightness: NDArray[np.float64], chroma: NDArray[np.complex128]) -> Colours:
    """From OKLab (a + ib as one complex number) to bytes of sRGB."""
    cones = [lightness + a * chroma.real + b * chroma.imag for a, b in _TO_CONE]
    linear = np.clip(_TO_RED @ np.stack(cones) ** 3, 0, 1).T
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    found: Colours = np.rint(255 * curved).astype(np.uint8)
    return found
