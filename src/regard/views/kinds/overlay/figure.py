"""Attention over an image on paper: the image, and the image under its weights."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.views import colours
from regard.views.figure.canvas import GAP, LABEL, Box, Canvas, cut_end
from regard.views.figure.map_panel import KEY_WIDTH, RAMP, colour_key_marks, draw_colour_key
from regard.views.kinds.overlay.numbers import OverlayNumbers, overlay_numbers
from regard.views.scene import Picture, Scene
from regard.views.state import ViewState

LARGEST_SIDE = 200.0  # the longer side of the picture
STEP_SIDE = 62.0  # the width of the small picture of one decoding step
MOST_STEPS = 40  # more steps are not drawn one by one
FADE = 0.55  # how much of the picture's brightness is left under the colours


def draw_overlay(canvas: Canvas, numbers: OverlayNumbers, scene: Scene, state: ViewState) -> None:
    """The picture, the picture under its weights, then every decoding step if there are some."""
    pixels = _read_pixels(numbers.picture)
    ratio = _aspect_ratio(numbers, pixels)
    count = 1 if pixels is None else 2
    width = min((canvas.width - KEY_WIDTH - 4 * GAP) / count, LARGEST_SIDE * min(1.0, ratio))
    height = width / ratio
    left = (canvas.width - count * (width + GAP) - KEY_WIDTH) / 2
    top = canvas.height + GAP
    if pixels is not None:
        canvas.image(pixels, (left, top, width, height), smooth=True)
        left += width + GAP
    _draw_weights_over(canvas, numbers, pixels, (left, top, width, height))
    scale = "linear" if state.scale == "row" else state.scale
    marks = colour_key_marks(scale, float(numbers.weights.max(initial=0)))
    key = (left + width + GAP, top, 5.0, min(height, 110.0))
    draw_colour_key(canvas, colours.dark(RAMP), marks, key)
    if state.place is None and _has_steps(numbers, scene, state):
        _draw_steps(canvas, numbers, scene, state)


def _has_steps(numbers: OverlayNumbers, scene: Scene, state: ViewState) -> bool:
    """True if the rows are decoding steps (of a caption, say) and not patches themselves."""
    site = scene.trace(state.trace).site(state.site)
    return site.rows.stream != site.columns.stream and 1 < len(numbers.steps) <= MOST_STEPS


def _draw_steps(canvas: Canvas, numbers: OverlayNumbers, scene: Scene, state: ViewState) -> None:
    """A small picture for every decoding step, named by its token."""
    pixels = _read_pixels(numbers.picture)
    ratio = _aspect_ratio(numbers, pixels)
    most = max(1, int((canvas.width - GAP) / (STEP_SIDE + GAP)))
    across = min(most, len(numbers.steps))
    width = min(STEP_SIDE * 1.3, (canvas.width - GAP) / across - GAP)
    left = (canvas.width - across * (width + GAP) + GAP) / 2
    top = canvas.height + 2 * GAP
    for index, token in enumerate(numbers.steps):
        x = left + (index % across) * (width + GAP)
        y = top + (index // across) * (width / ratio + LABEL + 2 * GAP)
        canvas.text(x + width / 2, y + LABEL, cut_end(token, LABEL, width), LABEL, ha="center")
        step = overlay_numbers(scene, replace(state, place=index))
        _draw_weights_over(canvas, step, pixels, (x, y + LABEL + 3, width, width / ratio))


def _draw_weights_over(
    canvas: Canvas, numbers: OverlayNumbers, pixels: NDArray[Any] | None, box: Box
) -> None:
    """Weights as light on a faded grey picture: patches without weight stay dim."""
    heat = colours.dark(numbers.shades)
    if pixels is None:
        canvas.image(heat, box)
        return
    gray = pixels[..., :3].mean(-1, keepdims=True).repeat(3, -1)
    canvas.image((gray * FADE).astype(np.uint8), box, smooth=True)
    opacity = 60 + 150 * numbers.shades[..., None]
    canvas.image(np.concatenate([heat, opacity.astype(np.uint8)], -1), box)


def _aspect_ratio(numbers: OverlayNumbers, pixels: NDArray[Any] | None) -> float:
    """Width of the picture over its height; without a picture, that of the grid of patches."""
    height, width = numbers.shades.shape if pixels is None else pixels.shape[:2]
    return float(width / height)


def _read_pixels(picture: Picture | None) -> NDArray[Any] | None:
    """The pixels (height width 3) of an image file."""
    if picture is None:
        return None
    from PIL import Image, ImageOps  # an optional dependency, which matplotlib needs too

    try:
        with Image.open(io.BytesIO(picture.data)) as opened:
            return np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(
            f"cannot read the picture ({error}); give a whole PNG, JPEG or GIF file"
        ) from error
