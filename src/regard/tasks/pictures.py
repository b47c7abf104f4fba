"""What tasks do with pictures: read them, refuse what is none, and find what shows the answer."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from regard.arguments import describe
from regard.errors import FileError, InputError
from regard.loading import page_picture, read_picture
from regard.loading.pictures import picture_png
from regard.types import AttentionMap, Evidence, Trace

__all__ = ["InputPicture", "picture_evidence", "read_input_picture"]

# Image processors take the first axis of a smaller picture for its channels.
_SMALLEST_SIDE = 4
_UNNAMED = "picture"


class InputPicture(NamedTuple):
    """A picture that was given: its name, its pixels as a Pillow image, and a file for a page."""

    name: str
    image: Any
    file: bytes


def read_input_picture(image: Any, processor: Any) -> InputPicture:
    """The picture of a path, of a Pillow image, or of an array (height width channel)."""
    if isinstance(image, str | Path):
        path = _check_path(image)
        picture = _check_size(read_picture(path), str(image))
        return InputPicture(str(image), picture, page_picture(path, processor))
    picture = _check_size(_to_pillow(image), _UNNAMED)
    return InputPicture(_UNNAMED, picture, picture_png(picture, processor))


def _check_path(image: str | Path) -> Path:
    """The path of a file that is there; a text in its place is refused."""
    try:
        if str(image) and Path(image).exists():
            return Path(image)
    except (OSError, ValueError):  # longer than a path may be, as texts are, or with a NUL
        pass
    text = str(image)
    shown = repr(text if len(text) <= 60 else f"{text[:59]}…")
    raise FileError(f"there is no file {shown}; give the path of a PNG, JPEG, GIF or WebP file")


def _to_pillow(image: Any) -> Any:
    """A Pillow image of what was given; an InputError for anything that is no picture."""
    if hasattr(image, "__array_interface__") and hasattr(image, "convert"):  # Pillow's own
        return image.convert("RGB")
    values = image.numpy() if isinstance(image, Tensor) else image
    is_pixels = isinstance(values, np.ndarray) and values.dtype == np.uint8
    if not is_pixels or values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
        shape = getattr(image, "shape", None)
        came = describe(image) if shape is None else f"{values.dtype} of shape {tuple(shape)}"
        raise InputError(
            "expected a picture: a path, a Pillow image, or an array of bytes (uint8) with the "
            f"axes height, width, 3; got {came}"
        )
    from PIL import Image

    return Image.fromarray(values).convert("RGB")


def _check_size(picture: Any, name: str) -> Any:
    """The picture itself, refused if it is so small that nothing can be seen on it."""
    width, height = picture.size
    if min(width, height) < _SMALLEST_SIDE:
        raise InputError(
            f"the picture {name} has {width} x {height} pixels; expected at least "
            f"{_SMALLEST_SIDE} x {_SMALLEST_SIDE}"
        )
    return picture


def picture_evidence(trace: Trace | None, *, written: bool = False) -> Evidence | None:
    """The last map over the patches of the picture, and the row that a class was computed from.

    That row is the first one: of attentive pooling, or of the class token before the patches. A
    model that takes the mean of all patches has no such row. With `written` all rows are shown, the
    tokens that were written about the picture. None if nothing attended to patches.
    """
    over_patches = [each for each in (trace.maps if trace else ()) if _sees_patches(trace, each)]
    if written:
        over_patches = [each for each in over_patches if each.kind == "cross"] or over_patches
    if trace is None or not over_patches:
        return None
    last = over_patches[-1]
    special = trace.streams[last.rows.stream].special
    has_first = last.shape[1] == 1 or bool(special and special[last.rows.positions[0]])
    return Evidence(last.site, (0,) if has_first and not written else ())


def _sees_patches(trace: Trace | None, attention_map: AttentionMap) -> bool:
    """True if the columns of a map are all the patches of a picture."""
    assert trace is not None
    tokens = trace.streams[attention_map.columns.stream]
    return tokens.grid is not None and len(attention_map.columns) == len(tokens)
