"""The configurations of the image models."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import InputError
from regard.models.config import Config
from regard.models.recurrent.config import DecoderConfig

__all__ = ["CaptionerConfig", "RecogniserConfig"]

Features = Literal["cnn", "patches"]


@dataclass(frozen=True)
class RecogniserConfig(Config):
    """The settings of a Recogniser: a feature map, and attentive pooling over its cells.

    With features="cnn" there is one convolution for each number of channels in `widths`, and each
    halves the sides of the image. "patches" cuts the image into squares of `patch` pixels and
    projects each to the last of the widths. `attention` is a name of the catalog, or several joined
    by +.
    """

    classes: int = 10
    channels: int = 3
    features: Features = "cnn"
    widths: tuple[int, ...] = (32, 64, 128)
    patch: int = 16
    attention: str = "additive"
    heads: int = 1
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "classes", "channels", "patch", "heads")
        self.refuse_unless_rates("dropout")
        _check_widths(self.widths)


@dataclass(frozen=True)
class CaptionerConfig(DecoderConfig):
    """The settings of a Captioner: a feature map as in RecogniserConfig, and a recurrent decoder.

    The default is soft attention; attention="additive + hard" attends to one cell at a time.
    """

    cell: Literal["gru", "lstm"] = "lstm"
    channels: int = 3
    features: Features = "cnn"
    widths: tuple[int, ...] = (32, 64, 128)
    patch: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "channels", "patch")
        _check_widths(self.widths)


def _check_widths(widths: tuple[int, ...]) -> None:
    """Raise an InputError unless there is at least one width and all are positive integers."""
    if not widths or not all(isinstance(width, int) and width > 0 for width in widths):
        raise InputError(f"widths should be numbers of channels above 0, one at least: {widths}")
