"""Attention written by hand: what a softmax and a product made of it, with four axes."""

from torch import Tensor

from regard.masks import Mask
from regard.tracing.describe import HIDDEN, as_description
from regard.tracing.flow import Weighing
from regard.tracing.seen import Seen
from regard.tracing.sites import Sites


def by_hand(sites: Sites, weighing: Weighing, used: Tensor) -> Seen:
    """The call whose weights were used in a product with values.

    A column that the softmax had and the product did not is a sink: the rows keep its share out.
    """
    keys = used.shape[-1] if used.dim() == weighing.weights.dim() else weighing.weights.shape[-1]
    weights = _four_axes(weighing.weights[..., :keys], sites.batch)
    scores = _four_axes(weighing.scores[..., :keys], sites.batch)
    nothing = weights.new_empty(*weights.shape[:2], 0, 0)
    return Seen(
        sites.here,
        *weighing.streams,
        nothing,
        nothing,
        weights=weights,
        mask=_mask(scores),
        span=keys,
        parts=sites.parts(len(weights)),
    )


def _mask(scores: Tensor) -> Mask | None:
    """The mask that was put on the scores, seen by its mark: numbers that hide a key."""
    seen = scores > HIDDEN
    return None if bool(seen.all()) else as_description(seen)


def _four_axes(rows: Tensor, batch: int) -> Tensor:
    """(batch head query key), from weights whose heads are folded into the batch, or missing."""
    if rows.dim() == 4:
        return rows
    if rows.dim() == 3:
        folded = 0 < batch < rows.shape[0] and rows.shape[0] % batch == 0
        return rows.reshape(batch, -1, *rows.shape[1:]) if folded else rows[:, None]
    if rows.dim() == 2 and rows.shape[0] == batch > 1:
        return rows[:, None, None]
    return rows.reshape(1, 1, -1, rows.shape[-1])
