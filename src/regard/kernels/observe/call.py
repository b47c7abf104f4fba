"""One call of attention as a checked value: its tensors, and what it does to its scores."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Size, Tensor

from regard.errors import InputError, ShapeError
from regard.kernels.memory import inside_transform, is_batched
from regard.masks import Bias, Mask, Window, everything
from regard.masks.value import check_offset

Queries = Float[Tensor, "batch head query dim"]
Keys = Float[Tensor, "batch key_head key dim"]
Values = Float[Tensor, "batch key_head key value_dim"]

MAX_KEYS = 2**31 - 1  # indices of keys are int32


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """What a call does to its scores: scale, cap, bias and mask them, in this order.

    `scale` is 1/sqrt(dim) if None. `softcap` c turns a score s into c tanh(s / c); an infinite one
    is none. Query i stands at position `offset` + i, as with a cache of earlier keys. `sink` holds
    one logit per head that takes part in the softmax without having a value, so that rows sum to
    less than one.
    """

    scale: float | None = None
    mask: Mask | None = None
    bias: Bias | None = None
    offset: int = 0
    softcap: float | None = None
    sink: Float[Tensor, " head"] | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """Tensors whose shapes, dtypes and devices fit together, and a scoring with its scale set.

    A softcap that no number of the call's precision reaches is taken out of the scoring.
    """

    query: Queries
    key: Keys
    value: Values
    scoring: Scoring
    padded: Bool[Tensor, "batch key"] | None = None

    def __post_init__(self) -> None:
        _check_tensors(self.query, self.key, self.value)
        _check_scoring(self)
        scale, cap = self.scoring.scale, self.scoring.softcap
        if scale is None:
            scale = 1 / math.sqrt(max(1, self.query.shape[3]))
        if cap is not None:
            limits = torch.finfo(self.accumulator)
            cap = max(cap, limits.tiny) if cap < limits.max / 4 else None
        if (scale, cap) != (self.scoring.scale, self.scoring.softcap):
            object.__setattr__(self, "scoring", replace(self.scoring, scale=scale, softcap=cap))

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries, keys."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]

    @property
    def group(self) -> int:
        """How many query heads share one key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def scale(self) -> float:
        """The factor of the dot products, never None."""
        assert self.scoring.scale is not None
        return self.scoring.scale

    @property
    def accumulator(self) -> torch.dtype:
        """The dtype of sums and of every statistic."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def zeros(self, *shape: int) -> Float[Tensor, "..."]:
        """Zeros on the call's device, in the dtype of its statistics."""
        return torch.zeros(shape, dtype=self.accumulator, device=self.query.device)

    @cached_property
    def split(self) -> tuple[Window, Mask | None]:
        """The mask as a window, which lets blocks be skipped, and the rest of the mask, if any."""
        return (self.scoring.mask or everything()).split()


def _check_shapes(query: Size, key: Size, value: Size) -> None:
    """Refuse shapes of queries, keys and values that do not fit together."""
    if not len(query) == len(key) == len(value) == 4:
        problem = "query, key and value with the axes (batch head length dim)"
        advice = "add the missing axes with unsqueeze"
    elif query[0] != key[0] or key[:3] != value[:3]:
        problem = "one batch size, and keys and values of the same heads and length"
        advice = "expand or slice them to agree"
    elif query[3] != key[3]:
        problem, advice = "queries and keys of one width", "project them to the same dim"
    elif key[1] == 0 or query[1] == 0 or query[1] % key[1]:
        problem = "the number of key heads to divide that of query heads"
        advice = "repeat key heads until it does"
    elif key[2] > MAX_KEYS:
        problem, advice = "fewer than 2**31 keys", "cut them into parts"
    else:
        return
    shapes = f"query {tuple(query)}, key {tuple(key)}, value {tuple(value)}"
    raise ShapeError(f"expected {problem}, got {shapes}; {advice}")


def _check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse queries, keys and values whose shapes, dtypes or devices do not fit together."""
    _check_shapes(query.shape, key.shape, value.shape)
    dtype, device = query.dtype, query.device
    same = dtype == key.dtype == value.dtype and device == key.device == value.device
    if not same or not dtype.is_floating_point:
        kinds = ", ".join(f"{t.dtype} on {t.device}" for t in (query, key, value))
        raise InputError(
            f"expected query, key and value of one floating-point dtype on one device, "
            f"got {kinds}; convert them with .to"
        )
    if inside_transform() and any(map(is_batched, (query, key, value))):
        raise InputError(
            "observe expected tensors with a batch axis, got some of torch.vmap; call it once with "
            "all examples along the first axis"
        )


def _check_scoring(call: Call) -> None:
    """Refuse a mask, bias, sink, cap or padding that does not fit the sizes of the call."""
    scoring = call.scoring
    check_offset(scoring.offset)
    for term in (scoring.mask, scoring.bias):
        if term is not None:
            term.check(*call.sizes)
    heads = call.query.shape[1]
    if scoring.sink is not None and scoring.sink.shape != (heads,):
        raise ShapeError(
            f"expected a sink with one logit for each of the {heads} heads, "
            f"got shape {tuple(scoring.sink.shape)}; expand or index it"
        )
    if scoring.softcap is not None and not scoring.softcap > 0:
        raise InputError(
            f"expected a softcap above 0, got {scoring.softcap}; None leaves scores uncapped"
        )
    padded, expected = call.padded, (call.sizes[0], call.sizes[3])
    if padded is not None and (padded.shape != expected or padded.dtype != torch.bool):
        raise ShapeError(
            f"expected padded to be boolean with the axes (batch key) = {expected}, "
            f"got {padded.dtype} {tuple(padded.shape)}; it is True where a key is padding"
        )
