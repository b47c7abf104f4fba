"""Colours of weights, differences and heads, from the stops in colours.json.

The front end reads the same file (a copy that tools/write_front_data.py makes), so that pages,
figures and the terminal have the same colours.
"""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colours = NDArray[np.uint8]

STEPS = 257  # colours of a map, an odd number, so that one lies in the middle

# From OKLab to cone responses (without lightness, whose factor is 1), and from their cubes to
# linear sRGB (Ottosson 2020).
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


def light(shades: ArrayLike) -> Colours:
    """Red, green and blue of shades from 0 to 1 on paper: the more weight, the darker."""
    return _look_up(shades, "weights", "light")


def dark(shades: ArrayLike) -> Colours:
    """Red, green and blue of shades from 0 to 1 on a dark screen: the more weight, the brighter."""
    return _look_up(shades, "weights", "dark")


def signed(shades: ArrayLike, *, on_dark: bool = False) -> Colours:
    """Red, green and blue of differences from -1 (blue) through 0 to 1 (orange)."""
    return _look_up((np.asarray(shades) + 1) / 2, "differences", "dark" if on_dark else "light")


def head_colour(head: int) -> str:
    """The colour of a head's lines on paper; after the last one they begin again."""
    colours = _stops()["heads"]["light"]
    colour: str = colours[head % len(colours)]
    return colour


def is_dim(colour: Sequence[int] | Colours) -> bool:
    """True if light letters are read better than dark ones on a colour."""
    red, green, blue = (float(part) / 255 for part in colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.55


@cache
def _stops() -> dict[str, Any]:
    """The content of colours.json."""
    stops: dict[str, Any] = json.loads((files("regard.views") / "colours.json").read_text("utf-8"))
    return stops


def _look_up(shades: ArrayLike, name: str, theme: str) -> Colours:
    """The colours of shades from 0 to 1 in a colour map."""
    table = _colour_table(name, theme)
    indices = np.clip(np.asarray(shades, np.float64), 0, 1) * (len(table) - 1)
    colours: Colours = table[np.rint(indices).astype(int)]
    return colours


@cache
def _colour_table(name: str, theme: str) -> Colours:
    """The colours of a map in equal steps, interpolated between its stops in OKLab."""
    steps = np.linspace(0, 1, STEPS)
    at, lightness, chroma, hue = np.array(_stops()[name][theme], np.float64).T
    # Hue is an angle: as a complex number it is mixed without a jump at 360 degrees.
    mixed = chroma * np.exp(1j * np.radians(hue))
    real, imaginary = (np.interp(steps, at, part) for part in (mixed.real, mixed.imag))
    return _oklab_to_srgb(np.interp(steps, at, lightness), real + 1j * imaginary)


def _oklab_to_srgb(lightness: NDArray[np.float64], chroma: NDArray[np.complex128]) -> Colours:
    """From OKLab (a + ib as one complex number) to bytes of sRGB."""
    cones = [lightness + a * chroma.real + b * chroma.imag for a, b in _TO_CONE]
    linear = np.clip(_TO_RED @ np.stack(cones) ** 3, 0, 1).T
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    srgb: Colours = np.rint(255 * curved).astype(np.uint8)
    return srgb
