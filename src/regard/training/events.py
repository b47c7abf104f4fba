"""What happens while a model is trained, as small values that callbacks are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

Reason = Literal["done", "stopped early", "interrupted", "out of time"]


@dataclass(frozen=True)
class Started:
    """Training begins, or goes on after `step` steps; `total` is how many there will be."""

    model: nn.Module
    step: int
    total: int


@dataclass(frozen=True)
class Stepped:
    """One step of the optimiser: the mean loss of its tokens, and how it was made."""

    step: int
    loss: float
    tokens: int
    padding: float
    """The share of the batch's target side that was padding."""
    rate: float
    norm: float
    """That of the gradient, before clipping."""
    seconds: float


@dataclass(frozen=True)
class Evaluated:
    """The metrics on held-out examples, and some of the model's outputs for them."""

    step: int
    metrics: Mapping[str, float]
    samples: tuple[Mapping[str, str], ...] = ()
    best: bool = False
    model: nn.Module | None = field(default=None, repr=False, compare=False)
    """The model as it is now, for callbacks that look at it."""


@dataclass(frozen=True)
class Saved:
    """A whole checkpoint is on disk."""

    step: int
    path: Path


@dataclass(frozen=True)
class Ended:
    """Nothing more comes, and why."""

    step: int
    reason: Reason
    path: Path | None = None
    """The finished model, where there is one."""


Event = Started | Stepped | Evaluated | Saved | Ended
Callback = Callable[[Event], Any]
