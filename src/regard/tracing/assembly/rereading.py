"""Generation without a cache: each step reads all tokens again, and has all earlier rows.

    step 1    11 x 11
    step 2    12 x 12, of which the first 11 rows are those of step 1
    step 3    13 x 13: the only map that is kept

This holds where no token sees later ones, and no row of the batch has moved. In a model whose
tokens see all others, each step has other weights, and stays a map of its own.
"""

import torch
from torch import Tensor

from regard.tracing.assembly.row_matching import near_rows
from regard.tracing.recording.record import CallRecord


def replaces_earlier(record: CallRecord, earlier: CallRecord) -> bool:
    """True if a call has all rows of an earlier one, with the same weights, and some more."""
    batch, heads, queries, keys = record.sizes
    _, _, earlier_queries, earlier_keys = earlier.sizes
    if earlier.sizes[:2] != (batch, heads) or earlier_queries >= queries:
        return False
    if record.windows != earlier.windows or (record.weights is None) != (earlier.weights is None):
        return False
    if any(call.edits or call.gradient_slot is not None for call in (record, earlier)):
        return False
    if record.is_self_attention:
        if (queries, earlier_queries) != (keys, earlier_keys):
            return False
    elif keys != earlier_keys:
        return False
    return _has_weights_of(record, earlier)


def _has_weights_of(record: CallRecord, earlier: CallRecord) -> bool:
    """True if the first rows of a call have the weights of an earlier one, and none beyond."""
    _, _, queries, keys = earlier.sizes
    if record.weights is not None and earlier.weights is not None:
        rows = record.weights[:, :, :queries]
        if not torch.allclose(rows[..., :keys], earlier.weights, atol=1e-5, equal_nan=True):
            return False
        is_seen = bool(rows[..., keys:].any())
        if not (record.key.shape[2] and earlier.key.shape[2]):
            return False  # of a manual call without its values, nothing tells which keys it had
        return not is_seen and _is_near(record.key[:, :, keys - 1], earlier.key[:, :, -1])
    if record.is_self_attention and not record.is_causal:
        return False
    if not _is_near(record.key[:, :, keys - 1], earlier.key[:, :, -1]):  # most others differ here
        return False
    return _is_near(record.key[:, :, :keys], earlier.key) and _is_near(
        record.query[:, :, :queries], earlier.query
    )


def _is_near(one: Tensor, other: Tensor) -> bool:
    """True if two tensors are equal up to rounding, row by row."""
    return one.shape == other.shape and bool(near_rows(one, other).diagonal().all())
