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

from regard.tracing.dataflow.origins import is_single, origin_of, set_origin, stream_origin
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


class BlockAxes(FourAxes):
    """The same for blocks of tokens, which lie in front of the tokens in the result."""

    def finish(self, context: Tensor) -> Tensor:
        """A context with four axes, with its blocks where they were."""
        context = context.unflatten(0, (self.lead[0], -1))
        return context.movedim(1, -3) if len(self.lead) == 3 else context.squeeze(2)


def to_four_axes(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, repeats_heads: bool
) -> FourAxes:
    """The sides of a call of scaled_dot_product_attention, broadcast to four axes each."""
    if (blocks := _split_blocks(query, key, value, mask)) is not None:
        return blocks
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
    holds_heads = _holds_heads(lead, query)
    query, key, value = (_shape_side(side, lead, holds_heads, repeats_heads) for side in sides)
    return FourAxes(query, key, value, _shape_mask(mask, lead, holds_heads), lead)


def _split_blocks(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> FourAxes | None:
    """The sides of attention within blocks of tokens, each block a row of the batch.

    Blocks lie beside the tokens, (2, 4, 8, 32) or with heads before them (2, 3, 4, 8, 32). None
    for other calls, and for those with a mask.
    """
    origin, sides = origin_of(query), (query, key, value)
    if origin.layout != "grid" or origin.axis != -2 or query.dim() not in (4, 5):
        return None
    if mask is not None or len({side.shape[:-2] for side in sides}) > 1:
        return None
    heads = query.dim() == 5
    moved = [side.movedim(-3, 1) if heads else side.unsqueeze(2) for side in sides]
    lead = query.shape[:-2]
    shaped = [side.flatten(0, 1) for side in moved]
    for side, tensor in zip(shaped, sides, strict=True):
        set_origin(side, stream_origin(origin_of(tensor).stream, -2))
    return BlockAxes(shaped[0], shaped[1], shaped[2], None, lead)


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


def _holds_heads(lead: torch.Size, query: Tensor) -> bool:
    """True if a single leading axis holds the heads of one example.

    A loop over examples calls the function so; the batch of the model tells it from an axis of
    examples without heads.
    """
    examples = examples_of_running_model()
    if len(lead) != 1 or not examples:
        return False
    return lead[0] % examples > 0 or is_single(origin_of(query).stream)


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
