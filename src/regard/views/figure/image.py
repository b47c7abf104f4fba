"""Attention over a picture on paper: one step, or every step of a caption side by side."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.views import colours
from regard.views.figure.boards import KEY, RAMP, draw_key, key_values
from regard.views.figure.columns import GAP, LABEL
from regard.views.figure.sheet import Box, Sheet, cut
from regard.views.numbers import Cells, cells
from regard.views.scene import Picture, Scene
from regard.views.state import State

LARGEST = 200.0  # the longer side of a picture
SMALLEST = 62.0  # a picture of one step
STEPS = 40  # more are not drawn one by one
FADED = 0.55  # how much of the picture is left under the colours


def draw_image(sheet: Sheet, shown: Cells, scene: Scene, state: State) -> None:
    """The picture, and the picture under its weights; then every step, if there are some."""
    seen = _pixels(shown.picture)
    ratio = _ratio(shown, seen)
    count = 1 if seen is None else 2
    width = min((sheet.width - KEY - 4 * GAP) / count, LARGEST * min(1.0, ratio))
    height = width / ratio
    left = (sheet.width - count * (width + GAP) - KEY) / 2
    top = sheet.height + GAP
    if seen is not None:
        sheet.image(seen, (left, top, width, height), smooth=True)
        left += width + GAP
    box = (left, top, width, height)
    _draw_laid(sheet, shown, seen, box)
    said = key_values(_scale(state), float(shown.weights.max(initial=0)))
    key = (left + width + GAP, top, 5.0, min(height, 110.0))
    draw_key(sheet, colours.dark(RAMP), said, key)
    if state.place is None and _has_steps(shown, scene, state):
        _draw_steps(sheet, shown, scene, state)


def _scale(state: State) -> str:
    return "linear" if state.scale == "row" else state.scale


def _has_steps(shown: Cells, scene: Scene, state: State) -> bool:
    site = scene.trace(state.trace).site(state.site)
    return site.rows.stream != site.columns.stream and 1 < len(shown.steps) <= STEPS


def _draw_steps(sheet: Sheet, shown: Cells, scene: Scene, state: State) -> None:
    """A small picture for every step, named by its token."""
    seen, ratio = _pixels(shown.picture), _ratio(shown, _pixels(shown.picture))
    most = max(1, int((sheet.width - GAP) / (SMALLEST + GAP)))
    across = min(most, len(shown.steps))
    width = min(SMALLEST * 1.3, (sheet.width - GAP) / across - GAP)
    left = (sheet.width - across * (width + GAP) + GAP) / 2
    top = sheet.height + 2 * GAP
    for index, text in enumerate(shown.steps):
        x = left + (index % across) * (width + GAP)
        y = top + (index // across) * (width / ratio + LABEL + 2 * GAP)
        sheet.text(x + width / 2, y + LABEL, cut(text, LABEL, width), LABEL, ha="center")
        step = cells(scene, replace(state, place=index))
        _draw_laid(sheet, step, seen, (x, y + LABEL + 3, width, width / ratio))


def _draw_laid(sheet: Sheet, shown: Cells, seen: NDArray[Any] | None, box: Box) -> None:
    """Weights as light on a faded picture: where nothing was looked at, it is dim."""
    heat = colours.dark(shown.shades)
    if seen is None:
        sheet.image(heat, box)
        return
    gray = seen[..., :3].mean(-1, keepdims=True).repeat(3, -1)
    sheet.image((gray * FADED).astype(np.uint8), box, smooth=True)
    opaque = 60 + 150 * shown.shades[..., None]
    sheet.image(np.concatenate([heat, opaque.astype(np.uint8)], -1), box)


def _ratio(shown: Cells, seen: NDArray[Any] | None) -> float:
    """Width of the picture over its height."""
    height, width = shown.shades.shape if seen is None else seen.shape[:2]
    return float(width / height)


def _pixels(picture: Picture | None) -> NDArray[Any] | None:
    if picture is None:
        return None
    from PIL import Image  # matplotlib needs it too

    try:
        with Image.open(io.BytesIO(picture.data)) as opened:
            return np.asarray(opened.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(
            f"cannot read the picture ({error}); give a whole PNG, JPEG or GIF file"
        ) from error
