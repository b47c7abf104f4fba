"""Attention written by hand: what a softmax and a product made of it, with four axes."""

from torch import Tensor

from regard.masks import Mask
from regard.tracing.dataflow.origins import Pair, Weighing
from regard.tracing.mask_reading.dense import HIDDEN_BELOW, describe_dense_mask
from regard.tracing.recording.record import CallRecord
from regard.tracing.sites import Sites


def by_hand(sites: Sites, weighing: Weighing, used: Tensor | None = None) -> CallRecord:
    """The call whose weights were used in a product with values.

    A column that the softmax had and the product did not is a sink: the rows keep its share out.
    """
    weights = four_axes(weighing.weights, weighing.pair, sites.batch, sites.heads)
    nothing = weights.new_empty(*weights.shape[:2], 0, 0)
    return CallRecord(
        sites.here,
        *weighing.streams,
        nothing,
        nothing,
        weights=weights,
        mask=_mask(weighing, sites),
        span=weights.shape[3],
        parts=sites.parts(len(weights)),
    )


def _mask(weighing: Weighing, sites: Sites) -> Mask | None:
    """The mask that was put on the scores, seen by its mark: numbers that hide a key.

    Where weights were changed, the keys that were left nothing are hidden too.
    """
    seen = weighing.weights != 0 if weighing.is_changed else None
    if weighing.scores.shape == weighing.weights.shape:
        before = weighing.scores > HIDDEN_BELOW
        seen = before if seen is None else seen & before
    if seen is None or bool(seen.all()):
        return None
    return describe_dense_mask(four_axes(seen, weighing.pair, sites.batch, sites.heads))


def four_axes(rows: Tensor, pair: Pair, batch: int, heads: int = 0) -> Tensor:
    """(batch head query key), from weights whose axes are elsewhere, folded together, or missing.

    Without an axis of queries there is one of them. Where the number of heads is known, they are
    folded into the batch.
    """
    query, key = pair.left.axis, pair.right.axis
    assert key
    if query:
        rows = rows.movedim((query, key), (-2, -1))
    else:
        rows = rows.movedim(key, -1)[..., None, :]
        if rows.dim() == 5 and rows.shape[2] == 1:
            rows = rows[:, :, 0]
    if rows.dim() == 2:
        return rows[None, None]
    if rows.dim() == 3 and heads:
        return rows.reshape(-1, heads, *rows.shape[1:])
    if rows.dim() == 3:
        # heads may be folded into the batch, or windows, of which tokens tell that they are parts
        folded = query and pair.left.whole and 0 < batch < len(rows) and len(rows) % batch == 0
        return rows.reshape(batch, -1, *rows.shape[1:]) if folded else rows[:, None]
    if rows.dim() > 4:
        return rows.flatten(0, -4)
    if batch and rows.shape[0] % batch and rows.shape[1] == batch:
        return rows.transpose(0, 1)
    return rows
