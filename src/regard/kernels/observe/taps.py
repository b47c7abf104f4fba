"""The registry of attention functions that watchers recognise, and how to describe their calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe.call import Queries, Scoring, Values
from regard.masks import Mask


@dataclass(frozen=True, eq=False)
class Tapped:
    """One call of an attention function, described for a watcher.

    A softmax over dot products has a `scoring`, from which `observe` computes everything. Any other
    mechanism gives the `weights` that it used and, if it knows them, the `mask` that they obey and
    the `offset` of the first query. `finish` turns a context with the axes batch, head, query, dim
    into what the function returns. `runs_itself` says that the function's own result is to be used,
    because one computed from the weights would differ. `is_quick` says that running the function
    takes no longer than the kernel would. `levelled_rows` are queries from which the
    mask hides all keys by numbers so low that the function weighs all of them equally.
    """

    query: Queries
    key: Float[Tensor, "batch key_head key key_dim"]  # may differ from the width of queries
    value: Values
    finish: Callable[[Tensor], Any]
    scoring: Scoring | None = None
    weights: Float[Tensor, "batch head query key"] | None = None
    dropout: float = 0.0
    mask: Mask | None = None
    offset: int = 0
    runs_itself: bool = False
    is_quick: bool = False
    levelled_rows: Bool[Tensor, "batch query"] | None = None


@dataclass(frozen=True)
class Unmapped:
    """A call that attends and cannot be mapped: it runs unobserved and becomes a gap.

    `reason` completes the sentence "this site could not be mapped: ...".
    """

    reason: str


Describer = Callable[..., Tapped | Unmapped | None]

_taps: dict[Callable[..., Any], Describer] = {}


def register_tap(function: Callable[..., Any], describer: Describer) -> None:
    """Let watchers capture the calls of an attention function.

    The describer takes the arguments of the function and returns a Tapped, None for a call that
    should not be captured, or an Unmapped with the reason why a call cannot be captured. The
    function must reach watchers: one of torch's, or one that dispatches through
    `torch.overrides.handle_torch_function`.
    """
    if not callable(function) or not callable(describer):
        raise InputError(
            f"register_tap expected a function and its describer, got {function!r} and "
            f"{describer!r}"
        )
    _taps[function] = describer


# The describer of a function, None if it is not registered. Watchers ask at every call of torch.
tap_of: Callable[[Callable[..., Any]], Describer | None] = _taps.get
