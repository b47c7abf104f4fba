"""Pictures for a model: read from files, made into pixels, and made into what a page can show."""

import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import FileError, InputError

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_SHOWN = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8")  # what pages show as it is


def read_picture(path: Path) -> Any:
    """The picture in a file, of any kind that Pillow reads."""
    if find_spec("PIL") is None:
        raise InputError("to read pictures: pip install pillow")
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except UnidentifiedImageError:
        raise FileError(f"{path} is no picture; give a PNG, JPEG, GIF or WebP file") from None
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read the picture {path}: {reason}") from error


def is_picture(path: Path) -> bool:
    """Whether a file is a picture, by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except (OSError, ValueError):
        return False
    webp = start[:4] == b"RIFF" and start[8:] == b"WEBP"
    return start.startswith((*_SHOWN, b"BM", b"II*\0", b"MM\0*")) or webp


def shown(path: Path, processor: Any) -> bytes:
    """The picture for a page as a PNG, JPEG or GIF file: what lies under the patches."""
    contents = path.read_bytes()
    crop = getattr(processor, "crop_size", None)
    if not getattr(processor, "do_center_crop", False) or not crop:
        return contents if contents.startswith(_SHOWN) else _png(read_picture(path))
    pixels = processor(images=read_picture(path), return_tensors="pt")["pixel_values"][0]
    return _png(_picture_of(pixels))


def _picture_of(pixels: Tensor) -> Any:
    """The picture that pixels were made of, as light as it can be."""
    from PIL import Image

    low, high = pixels.amin(), pixels.amax()
    levels = (255 * (pixels - low) / (high - low).clamp_min(1e-6)).byte()
    return Image.fromarray(levels.permute(1, 2, 0).numpy())


def _png(picture: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


class Pixels:
    """Makes pixels for a model of ours: its size and channels, normalised as its folder says."""

    def __init__(self, side: int | None, channels: int, mean: Any, deviation: Any) -> None:
        self.side, self.channels = side, channels
        self.mean, self.deviation = (
            torch.tensor(each, dtype=torch.float32).expand(channels)[:, None, None]
            for each in (mean, deviation)
        )
        self.tokenizer: Any = None

    @classmethod
    def of(cls, folder: Path, config: Any, tokenizer: Any) -> "Pixels":
        """For the model of a folder; without a file that says more, levels become -1 to 1."""
        file = folder / "preprocessor_config.json"
        said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        kind, channels = getattr(config, "kind", None), config.channels
        side = config.image_size if kind == "vision" else None
        half = [0.5] * channels
        found = cls(side, channels, said.get("image_mean", half), said.get("image_std", half))
        found.tokenizer = tokenizer
        return found

    def __call__(self, images: Any, return_tensors: str = "pt") -> dict[str, Tensor]:
        """The pixels of one picture, a batch of one."""
        if self.channels not in _MODES:
            raise InputError(
                f"the model takes {self.channels} channels; a picture has 1, 3 or 4 of them"
            )
        picture = images.convert(_MODES[self.channels])
        if self.side is not None:
            picture = picture.resize((self.side, self.side), 2)  # bilinear
        levels = torch.from_numpy(np.array(picture, dtype=np.float32) / 255)
        pixels = levels[None] if levels.dim() == 2 else levels.permute(2, 0, 1)
        return {"pixel_values": ((pixels - self.mean) / self.deviation)[None]}
