"""Queries, keys, values and mask of scaled_dot_product_attention with exactly four axes.

The function takes any number of leading axes and broadcasts them: a learned query of batch 1 over a
batch of keys, one head of keys over all heads, windows on a fifth axis. With `enable_gqa`, heads of
keys and of values are repeated, and need not be as many of both. Here all of that becomes
(batch, head, token, dim), where groups of query heads may share a key head:

    query (1, 2, 5, 4), key (3, 2, 7, 4)          ->  (3, 2, 5, 4), (3, 2, 7, 4)
    query (3, 6, 2, 5, 4), key (3, 6, 1, 7, 4)    ->  (18, 2, 5, 4), (18, 2, 7, 4)
    query (2, 5, 4) in a model that reads 3 examples: heads of one example  ->  (1, 2, 5, 4)
"""

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from regard.tracing.dataflow.origins import origin_of, set_origin
from regard.tracing.sites import examples_of_running_model


class FourAxes(NamedTuple):
    """The sides of a call with four axes each, and the leading axes of its result."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    lead: torch.Size

    def finish(self, context: Tensor) -> Tensor:
        """A context with four axes in the layout of the function's result."""
        shape = (*self.lead, *context.shape[2:])
        return context if context.shape == shape else context.reshape(shape)


def to_four_axes(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, repeats_heads: bool
) -> FourAxes:
    """The sides of a call of scaled_dot_product_attention, broadcast to four axes each."""
    sizes, keys, values = query.shape, key.shape, value.shape
    if (
        len(sizes) == len(keys) == len(values) == 4
        and keys[:3] == values[:3]
        and sizes[0] == keys[0]
        and keys[1]
        and sizes[1] % keys[1] == 0
    ):
        return FourAxes(query, key, value, mask, torch.Size(sizes[:2]))
    sides = (query, key, value)
    if repeats_heads and key.shape[-3] != value.shape[-3]:
        heads = query.shape[-3]
        sides = (query, _repeat_heads(key, heads), _repeat_heads(value, heads))
        repeats_heads = False
    lead = _broadcast_leads(*sides, repeats_heads)
    holds_heads = _holds_heads(lead)
    query, key, value = (_shape_side(side, lead, holds_heads, repeats_heads) for side in sides)
    return FourAxes(query, key, value, _shape_mask(mask, lead, holds_heads), lead)


def _repeat_heads(side: Tensor, heads: int) -> Tensor:
    """Keys or values with one head for each query head."""
    repeated = side.repeat_interleave(heads // side.shape[-3], dim=-3)
    set_origin(repeated, origin_of(side))
    return repeated


def _broadcast_leads(query: Tensor, key: Tensor, value: Tensor, repeats_heads: bool) -> torch.Size:
    """The leading axes of the result; the heads of keys do not count if groups share them."""
    if not repeats_heads:
        shapes = (side.shape[:-2] for side in (query, key, value))
        return torch.Size(torch.broadcast_shapes(*shapes))
    batch = torch.broadcast_shapes(*(side.shape[:-3] for side in (query, key, value)))
    return torch.Size((*batch, query.shape[-3]))


def _holds_heads(lead: torch.Size) -> bool:
    """True if a single leading axis holds the heads of one example.

    A loop over examples calls the function so; the batch of the model tells it from an axis of
    examples without heads.
    """
    examples = examples_of_running_model()
    return len(lead) == 1 and examples > 0 and lead[0] % examples > 0


def _shape_side(side: Tensor, lead: torch.Size, holds_heads: bool, repeats_heads: bool) -> Tensor:
    """One side as (batch, head, token, dim)."""
    shape = [*lead, *side.shape[-2:]]
    if repeats_heads:
        shape[-3] = side.shape[-3]
    wide = side.expand(shape)
    if len(lead) == 1:
        shaped = wide[None] if holds_heads else wide[:, None]
    else:
        heads = shape[-3] if lead else 1
        shaped = wide.reshape(prod(shape[:-3]), heads, *side.shape[-2:])
    set_origin(shaped, origin_of(side))
    return shaped


def _shape_mask(mask: Tensor | None, lead: torch.Size, holds_heads: bool) -> Tensor | None:
    """A mask with at most four axes, of which the first is that of the shaped sides."""
    if mask is None or mask.dim() < 3 or len(lead) == 2:
        return mask
    if len(lead) == 1:
        return mask[None] if holds_heads else mask[:, None]
    if mask.dim() == 3:
        return mask  # the same for all examples
    wide = mask[(None,) * (len(lead) + 2 - mask.dim())]
    return wide.expand(*lead[:-1], -1, -1, -1).flatten(0, len(lead) - 2)
