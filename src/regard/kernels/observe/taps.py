"""The registry of taps: which functions attend, and how to describe one call of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe.call import Queries, Scoring, Values
from regard.masks import Mask


@dataclass(frozen=True, eq=False)
class Tapped:
    """One call of an attending function, as a watcher needs it.

    Softmax over inner products has a `scoring`; any other mechanism gives its `weights`, the very
    ones that were used, and perhaps the `mask` that they obey, for queries from `offset` on.
    `finish` makes of a context with four axes what the function returns.
    """

    query: Queries
    key: Float[Tensor, "batch key_head key key_dim"]  # which may be wider than queries
    value: Values
    finish: Callable[[Tensor], Any]
    scoring: Scoring | None = None
    weights: Float[Tensor, "batch head query key"] | None = None
    dropout: float = 0.0
    mask: Mask | None = None
    offset: int = 0


Describer = Callable[..., Tapped | None]

_taps: dict[Callable[..., Any], Describer] = {}


def register_tap(function: Callable[..., Any], describer: Describer) -> None:
    """Let watchers see a function that attends.

    The describer takes the arguments of the function and gives a Tapped, or None for a call that
    is not to be seen. The function must reach watchers: one of torch's, or one that dispatches
    through `torch.overrides.handle_torch_function`.
    """
    if not callable(function) or not callable(describer):
        raise InputError(
            f"register_tap expected a function and its describer, got {function!r} and "
            f"{describer!r}"
        )
    _taps[function] = describer


def tap_of(function: Callable[..., Any]) -> Describer | None:
    """The describer of a function, None if it is not known to attend."""
    return _taps.get(function)
