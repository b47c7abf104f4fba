"""Weights that are no softmax: scores of two streams that are summed with values as they are.

Sigmoid attention, relu attention, sparsemax, retention in its parallel form and linear attention in
the order (q k^T) v all compute a number for each query and key, and sum values by these numbers.
They are weights, whatever they sum to:

    s = q @ k.mT            (1, 7, 7)   pair: queries of "encoder" on axis -2, keys on axis -1
    w = s.sigmoid()                     unchanged: every number by itself
    c = w @ v               (1, 7, 32)  v has its tokens on the axis that is summed: attention!

Exponentials may also be divided by their sum after the product with values, (e @ v) / e.sum(-1).
Their map is e / e.sum(-1), known at the division. If that never comes, as where blocks of keys have
a running maximum and a running sum, no single division normalises them, and the site is a gap.
"""

from dataclasses import replace

import torch
from torch import Tensor

from regard.tracing.dataflow.origins import (
    Exponentials,
    ManualWeights,
    Origin,
    StreamPair,
    StreamSide,
)
from regard.tracing.dataflow.softmax import order_pair
from regard.tracing.readable import are_readable, detach_untraced

BLOCKS = (
    "it sums values by exponentials of scores that are normalised later, in blocks of keys with a "
    "running sum (online softmax), so no weights are computed; attend over all keys at once, or "
    "register_tap its function"
)


def scores_as_weights(
    origin: Origin, scores: Tensor, values: Origin, summed: tuple[int, int]
) -> Origin | None:
    """The origin of scores that are used as weights; None if they meet no values by their keys.

    `summed` are the axes of scores and of values that a product sums over.
    """
    pair = None if origin.pair is None else order_pair(origin.pair, summed[0])
    if pair is None or not _joins_tokens(pair, values, summed[1]):
        return None
    numbers = detach_untraced(scores)
    stage = ManualWeights(numbers, _mask_as_scores(numbers, pair), pair)
    return replace(origin, pair=pair, stage=stage)


def _joins_tokens(pair: StreamPair, values: Origin, axis: int) -> bool:
    """True if scores of two streams, all of whose tokens have an axis, are summed with values."""
    if not pair.is_product or values.pair is not None or values.stage is not None:
        return False
    if values.stream is None or values.axis != axis:
        return False
    return _holds_tokens(pair.left) and _holds_tokens(pair.right)


def _holds_tokens(side: StreamSide) -> bool:
    return bool(side.axis) and side.whole and side.stream is not None


def _mask_as_scores(weights: Tensor, pair: StreamPair) -> Tensor:
    """Numbers that hide future keys if all weights on them are zero, and hide nothing otherwise.

    A single zero is no mask: relu gives zeros to keys that the query does see.
    """
    queries, keys = pair.left.axis, pair.right.axis
    assert queries
    assert keys
    visible = weights.new_zeros(()).expand(weights.shape)
    rows, columns = weights.shape[queries], weights.shape[keys]
    if rows == 1 or not are_readable((weights,)):
        return visible
    with torch.no_grad(), torch._C.DisableTorchFunction():
        by_rows = weights.movedim((queries, keys), (-2, -1))
        if bool(by_rows.triu(1 + columns - rows).any()):
            return visible
        hidden = weights.new_full((rows, columns), float("-inf")).triu(1 + columns - rows)
        return hidden.expand(by_rows.shape).movedim((-2, -1), (queries, keys))


def divide_by_sum(weights: ManualWeights, exponentials: Exponentials) -> ManualWeights:
    """Exponentials that were summed with values first, divided by their own sum over keys."""
    axis = weights.pair.right.axis
    assert axis
    if not are_readable((weights.weights,)):
        return weights
    with torch.no_grad(), torch._C.DisableTorchFunction():
        normalised = weights.weights / weights.weights.sum(axis, keepdim=True)
    return replace(weights, weights=normalised, scores=exponentials.scores, is_changed=True)
