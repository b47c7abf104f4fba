"""Describes calls of torch's scaled_dot_product_attention: four axes, mask and cache read."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import RegardError
from regard.kernels.observe import Scoring
from regard.kernels.observe.taps import Tapped, Unmapped, register_tap
from regard.masks import causal
from regard.tracing.dataflow.origins import origin_of, set_origin
from regard.tracing.mask_reading.dense import (
    drop_unwritten_keys,
    has_levelled_rows,
    read_mask,
)
from regard.tracing.mask_reading.lazy import first_query_position, levelled_rows
from regard.tracing.recording.nested import is_nested, nest_result, pad_sides
from regard.tracing.recording.sdpa_axes import to_four_axes


def describe_sdpa(*args: Any, **kwargs: Any) -> Tapped | Unmapped:
    """One call of F.scaled_dot_product_attention, described from its arguments.

    A call that cannot be described runs unobserved: where torch refuses it too, the caller gets
    torch's own error.
    """
    try:
        return describe_sdpa_arguments(*args, **kwargs)
    except (RegardError, RuntimeError, IndexError, TypeError) as error:
        return Unmapped(f"its arguments cannot be read ({error}); report this as a bug")


def describe_sdpa_arguments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **options: Any,
) -> Tapped:
    """`describe_sdpa` without its net: arguments that cannot be read raise an error."""
    if is_nested(query):
        padded = pad_sides(query, key, value)
        tapped = describe_sdpa_arguments(*padded, dropout_p, is_causal, scale, **options)
        return nest_result(tapped, query)
    axes = to_four_axes(query, key, value, attn_mask, bool(options.get("enable_gqa")))
    query, key, value, attn_mask, _lead = axes
    cached = _reads_cache(query, key) and not is_causal
    if cached and attn_mask is not None and attn_mask.shape[-1] == key.shape[2]:
        attn_mask = drop_unwritten_keys(attn_mask, query.shape[2])
        key, value = (_first_keys(side, attn_mask.shape[-1]) for side in (key, value))
    mask, bias = (causal(), None) if is_causal else read_mask(attn_mask, len(query))
    # a dense causal mask lets the last query see the last key; is_causal starts at the first
    aligned_last = not is_causal and mask is not None and mask.split()[0].right == 0
    before = key.shape[2] - query.shape[2] if cached or aligned_last else 0
    offset = first_query_position(attn_mask, before)
    if has_levelled_rows(attn_mask):
        # their weights follow from rounded scores, so no logsumexp gives them again
        weights = _softmax_of_sums(query, key, attn_mask, scale)
        sides = (query, key, value)
        return Tapped(*sides, axes.finish, None, weights, dropout_p, mask, offset, runs_itself=True)
    # written out, or the kernel would make a second value to put it in
    scale = 1 / math.sqrt(max(1, query.shape[3])) if scale is None else scale
    scoring = Scoring(scale=scale, mask=mask, bias=bias, offset=offset)
    rows = levelled_rows(attn_mask, len(query))
    finish = axes.finish
    return Tapped(
        query, key, value, finish, scoring, dropout=dropout_p, is_quick=True, levelled_rows=rows
    )


def _softmax_of_sums(
    query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None
) -> Tensor:
    """The weights as torch computes them: softmax(scores + mask)."""
    assert mask is not None
    with torch.no_grad(), torch._C.DisableTorchFunction():
        scale = query.shape[3] ** -0.5 if scale is None else scale
        grouped = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        scores = query @ grouped.mT * scale
        return (scores + mask).softmax(dim=-1)


def _reads_cache(query: Tensor, key: Tensor) -> bool:
    """True if the keys are those of the queries' own stream and of earlier decoding steps."""
    stream = origin_of(query).stream
    return key.shape[2] > query.shape[2] and stream is not None and stream == origin_of(key).stream


def _first_keys(side: Tensor, keys: int) -> Tensor:
    """The first keys or values, still known as those of the same stream."""
    if keys == side.shape[2]:
        return side
    part = side[:, :, :keys]
    set_origin(part, origin_of(side))
    return part


for _function in (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention):
    register_tap(_function, describe_sdpa)
