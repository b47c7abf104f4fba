"""Describes a hand-written softmax as one call: weights with four axes, mask and values."""

from dataclasses import replace

from torch import Tensor

from regard.masks import Mask
from regard.tracing.dataflow.origins import (
    ManualWeights,
    StreamPair,
    is_single,
    plain_stream,
)
from regard.tracing.mask_reading.dense import HIDDEN_BELOW, describe_dense_mask
from regard.tracing.recording.record import CallRecord
from regard.tracing.sites import Sites


def describe_manual_call(sites: Sites, manual: ManualWeights) -> CallRecord:
    """The record of a call whose weights were computed by hand.

    A column that the softmax had and the product did not is a sink; what it took is missing from
    the sums of the rows.
    """
    weights = manual.weights.clone() if manual.is_buffer else manual.weights
    batch = _count_examples(manual, sites)
    weights = to_four_axes(weights, manual.pair, batch, sites.heads)
    empty = weights.new_empty(*weights.shape[:2], 0, 0)
    return CallRecord(
        manual.site or sites.here,
        plain_stream(manual.streams[0]),
        plain_stream(manual.streams[1]),
        empty,
        empty,
        weights=weights,
        mask=_read_mask(manual, sites),
        key_count=weights.shape[3],
        windows=sites.windows(len(weights)),
    )


def _count_examples(manual: ManualWeights, sites: Sites) -> int:
    """How many examples a call may have: one in a loop over examples, else those of the model."""
    return 1 if any(map(is_single, manual.streams)) else sites.batch


def _read_mask(manual: ManualWeights, sites: Sites) -> Mask | None:
    """The mask on the scores, read from the numbers that hide a key.

    Where weights were changed afterwards, keys whose weight is zero are hidden too.
    """
    visible = manual.weights != 0 if manual.is_changed else None
    if manual.scores.shape == manual.weights.shape:
        by_scores = manual.scores > HIDDEN_BELOW
        visible = by_scores if visible is None else visible & by_scores
    if visible is None or bool(visible.all()):
        return None
    batch = _count_examples(manual, sites)
    return describe_dense_mask(to_four_axes(visible, manual.pair, batch, sites.heads))


def to_four_axes(rows: Tensor, pair: StreamPair, batch: int, heads: int = 0) -> Tensor:
    """Weights as (batch, head, query, key), wherever their axes are, folded together or missing.

    Without an axis of queries there is one query. If the number of heads is known, heads are
    folded into the batch.
    """
    query, key = pair.left.axis, pair.right.axis
    assert key
    if query and pair.left.layout == "flat":
        rows = rows.movedim((query, key), (-2, -1)).unflatten(-2, (-1, pair.left.tokens))
    elif query:
        rows = rows.movedim((query, key), (-2, -1))
    else:
        rows = rows.movedim(key, -1)[..., None, :]
        if rows.dim() == 5 and rows.shape[2] == 1:
            rows = rows[:, :, 0]
    if rows.dim() == 2:
        return rows[None, None]
    if rows.dim() == 3 and heads:
        return rows.reshape(-1, heads, *rows.shape[1:])
    if batch and rows.dim() == 3 and rows.shape[1:] == (batch, batch) and len(rows) % batch:
        return rows[None]  # the rows of the input were the tokens of one example
    if rows.dim() == 3:
        # the first axis may hold heads or windows beside examples; windows hold parts of the tokens
        folded = query and pair.left.whole and 0 < batch < len(rows) and len(rows) % batch == 0
        return rows.reshape(batch, -1, *rows.shape[1:]) if folded else rows[:, None]
    if rows.dim() > 4:
        return rows.flatten(0, -4)
    if batch and rows.shape[0] % batch and rows.shape[1] == batch:
        return rows.transpose(0, 1)
    return rows


def add_values_as_keys(record: CallRecord, values: Tensor, axis: int) -> CallRecord:
    """The record with its values in place of keys, by which rows that move are recognised.

    A hand-written call shows no keys. The keys of the values are on the axis; before it comes the
    batch, perhaps with heads, on one axis or two.
    """
    batch, _, _, keys = record.sizes
    rows = values.detach().movedim(axis, -2)
    if rows.dim() not in (3, 4) or rows.shape[-2] != keys or len(rows) % batch:
        return record
    if rows.dim() == 3:
        rows = rows.unflatten(0, (batch, -1))
    return replace(record, key=rows) if len(rows) == batch else record
