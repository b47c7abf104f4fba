"""The events of training that callbacks receive: Started, Stepped, Evaluated, Saved, Ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

Reason = Literal["done", "stopped early", "interrupted", "out of time"]


@dataclass(frozen=True)
class Started:
    """Training has begun, or has resumed after `step` of `total` steps."""

    model: nn.Module
    step: int
    total: int


@dataclass(frozen=True)
class Stepped:
    """One step of the optimiser was made: its mean loss per token, learning rate and duration."""

    step: int
    loss: float
    tokens: int
    padding: float
    """The share of the batch's target side that was padding."""
    rate: float
    norm: float
    """The norm of the gradient before clipping."""
    seconds: float


@dataclass(frozen=True)
class Evaluated:
    """The model was evaluated: metrics on held-out examples, and some outputs.

    `best` is True if no earlier evaluation was better.
    """

    step: int
    metrics: Mapping[str, float]
    samples: tuple[Mapping[str, str], ...] = ()
    best: bool = False
    model: nn.Module | None = field(default=None, repr=False, compare=False)
    """The model at this step, for callbacks that run it."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    step: int
    path: Path


@dataclass(frozen=True)
class Ended:
    """Training has ended, for this reason."""

    step: int
    reason: Reason
    path: Path | None = None
    """The finished model, where there is one."""


Event = Started | Stepped | Evaluated | Saved | Ended
Callback = Callable[[Event], Any]
