"""Nested tensors, whose examples have different lengths: padded, so that a call can be described.

scaled_dot_product_attention takes a nested tensor of (batch, head, token, dim) whose token axis has
a length of its own for each example. It runs as it is. Beside it, the call is described with the
same numbers padded to the longest example, and a mask that hides the padding:

    lengths 5, 3, 4   ->   queries (3, 2, 5, 4), mask (3, 1, 1, 5)
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.kernels.observe.taps import Tapped
from regard.tracing.dataflow.origins import origin_of, set_origin


def is_nested(query: Any) -> bool:
    """True for a nested tensor, strided or jagged."""
    return isinstance(query, Tensor) and query.is_nested


def pad_sides(
    query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries, keys and values padded at the end, and a mask that hides the padding of keys."""
    with torch._C.DisableTorchFunction():
        lengths = [len(one[0]) for one in _unbind(key)]
    query, key, value = map(_pad, (query, key, value))
    if min(lengths) == max(lengths):
        return query, key, value, None
    places = torch.arange(max(lengths), device=key.device)
    real = places < torch.tensor(lengths, device=places.device)[:, None]
    return query, key, value, real[:, None, None]


def nest_result(tapped: Tapped, query: Tensor) -> Tapped:
    """The description of a padded call, whose result is nested again and which runs itself."""

    def finish(context: Tensor) -> Tensor:
        parts = zip(context, _unbind(query), strict=True)
        rows = [padded[:, : one.shape[1]].transpose(0, 1) for padded, one in parts]
        return torch.nested.as_nested_tensor(rows, layout=query.layout).transpose(1, 2)

    return replace(tapped, finish=finish, runs_itself=True)


def _unbind(side: Tensor) -> tuple[Tensor, ...]:
    """The examples of a nested tensor, or of a plain one."""
    return side.unbind(0)


def _pad(side: Tensor) -> Tensor:
    """A side of a call padded with zeros at the end of its third axis."""
    if not side.is_nested:
        return side
    with torch._C.DisableTorchFunction():
        parts = [one.transpose(0, 1) for one in _unbind(side)]
        padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2)
    set_origin(padded, origin_of(side))
    return padded
