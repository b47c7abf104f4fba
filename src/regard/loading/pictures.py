"""Pictures for a model: read from files, made into pixels, and made into what a page can show."""

import io
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.arguments import check_first_argument
from regard.documents import check_value, read_json
from regard.errors import FileError, InputError

__all__ = ["PixelReader", "is_picture", "page_picture", "picture_png", "read_picture"]

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # Pillow mode by number of channels
# The first bytes of PNG, JPEG and GIF, which every browser shows.
_BROWSER_FORMATS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8")
_BILINEAR = 2  # Pillow's number for it


@check_first_argument
def read_picture(path: Path) -> Any:
    """The picture in a file as a Pillow image in RGB, of any format that Pillow reads.

    A photograph is turned as its camera noted, as browsers show it.
    """
    if find_spec("PIL") is None:
        raise InputError("to read pictures: pip install pillow")
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        # Pillow warns of large pictures and of odd metadata, which say nothing about attention
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as picture:
                return ImageOps.exif_transpose(picture).convert("RGB")
    except UnidentifiedImageError:
        raise FileError(f"{path} is no picture; give a PNG, JPEG, GIF or WebP file") from None
    except Exception as error:  # each format of Pillow raises errors of its own: SyntaxError, ...
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        raise FileError(f"cannot read the picture {path}: {reason}") from error


@check_first_argument
def is_picture(path: Path) -> bool:
    """True if the first bytes of a file are those of an image format."""
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except (OSError, ValueError):
        return False
    webp = start[:4] == b"RIFF" and start[8:] == b"WEBP"
    return start.startswith((*_BROWSER_FORMATS, b"BM", b"II*\0", b"MM\0*")) or webp


@check_first_argument
def page_picture(path: Path, processor: Any) -> bytes:
    """The picture as a PNG, JPEG or GIF file for a page, cut as the model's processor cuts it.

    The cut matters because attention maps are drawn over it: a processor that crops the centre
    makes the model see, and the patches cover, that part alone.
    """
    try:
        contents = path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read the picture {path}: {error.strerror}") from error
    if not _crops(processor) and contents.startswith(_BROWSER_FORMATS):
        return contents
    return picture_png(read_picture(path), processor)


def picture_png(picture: Any, processor: Any) -> bytes:
    """A Pillow image as a PNG file, cut as the model's processor cuts it."""
    if not _crops(processor):
        return _to_png(picture.convert("RGB"))
    part = getattr(processor, "image_processor", processor)
    pixels = part(images=picture, return_tensors="pt")["pixel_values"][0]
    return _to_png(_image_of_pixels(pixels))


def _crops(processor: Any) -> bool:
    """True if a processor, or the part of it for pictures, cuts out the centre."""
    part = getattr(processor, "image_processor", processor)
    return bool(getattr(part, "do_center_crop", False) and getattr(part, "crop_size", None))


def _image_of_pixels(pixels: Tensor) -> Any:
    """A Pillow image of normalised pixels; the lowest value becomes black, the highest white."""
    from PIL import Image

    low, high = pixels.amin(), pixels.amax()
    levels = (255 * (pixels - low) / (high - low).clamp_min(1e-6)).byte()
    return Image.fromarray(levels.permute(1, 2, 0).numpy())


def _to_png(picture: Any) -> bytes:
    """A Pillow image as the bytes of a PNG file."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


class PixelReader:
    """Makes the pixels of a native model: resized to its side and normalised as its folder says.

    It is called as an image processor of transformers is, and replaces one where transformers is
    not installed. A `side` of None leaves the size of a picture as it is.
    """

    def __init__(self, side: int | None, channels: int, mean: Any, deviation: Any) -> None:
        self.side, self.channels = side, channels
        self.mean, self.deviation = (
            torch.tensor(levels, dtype=torch.float32).expand(channels)[:, None, None]
            for levels in (mean, deviation)
        )
        self.tokenizer: Any = None

    @classmethod
    def for_model(cls, folder: Path, config: Any, tokenizer: Any) -> "PixelReader":
        """The reader of a folder's model.

        Mean and deviation are those of preprocessor_config.json; without that file levels from 0
        to 1 become -1 to 1.
        """
        file = folder / "preprocessor_config.json"
        settings = read_json(file) if file.is_file() else {}
        kind, channels = getattr(config, "kind", None), config.channels
        side = config.image_size if kind == "vision" else None
        half = [0.5] * channels
        levels = [_channel_levels(file, settings, key, half) for key in ("image_mean", "image_std")]
        reader = cls(side, channels, *levels)
        reader.tokenizer = tokenizer
        return reader

    def __call__(self, images: Any, return_tensors: str = "pt") -> dict[str, Tensor]:
        """The pixels of one picture, as a batch of one."""
        if self.channels not in _MODES:
            raise InputError(
                f"the model takes {self.channels} channels; a picture has 1, 3 or 4 of them"
            )
        picture = images.convert(_MODES[self.channels])
        if self.side is not None:
            picture = picture.resize((self.side, self.side), _BILINEAR)
        levels = torch.from_numpy(np.array(picture, dtype=np.float32) / 255)
        # Pillow has the channels last, or no axis for a single one
        pixels = levels[None] if levels.dim() == 2 else levels.permute(2, 0, 1)
        return {"pixel_values": ((pixels - self.mean) / self.deviation)[None]}


def _channel_levels(
    file: Path, settings: dict[str, Any], key: str, default: list[float]
) -> float | list[float]:
    """The number for all channels, or for each, that a preprocessor_config.json has for a key."""
    value: float | list[float] = settings.get(key, default)
    check_value(str(file), key, value, float | list[float])
    if isinstance(value, list) and len(value) not in (1, len(default)):
        raise FileError(
            f"{file} expected {key} for each of {len(default)} channels, got {len(value)} numbers"
        )
    return value
