"""The events of training, small values that are passed to callbacks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

Reason = Literal["done", "stopped early", "interrupted", "out of time"]


@dataclass(frozen=True)
class Started:
    """Training begins, or resumes after `step` of `total` steps."""

    model: nn.Module
    step: int
    total: int


@dataclass(frozen=True)
class Stepped:
    """One step of the optimiser: the mean loss of a token, the learning rate, and so on."""

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
    """The metrics on held-out examples, and some of the model's outputs for them."""

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
