"""Weights of an earlier call, recomputed from its queries, keys, logsumexp and scoring."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.arguments import check_type
from regard.errors import InputError, ShapeError
from regard.kernels.observe.call import Call, Keys, Queries, Scoring
from regard.kernels.observe.choice import implementation_for
from regard.kernels.observe.region import Pooled, Received, Region, cell_counts

DEFAULT_SCORING = Scoring()


def window(
    query: Queries,
    key: Keys,
    lse: Float[Tensor, "batch head query"],
    region: Region,
    scoring: Scoring = DEFAULT_SCORING,
) -> Pooled:
    """The exact weights of a rectangle of one head, pooled to cells of zoom x zoom weights.

    Time and memory are those of the rectangle, not of the whole map. If the call had a sink, it has
    its share here too, and the weights of a row sum to less than one.

    >>> import torch
    >>> from regard.kernels.observe import Region, observe, window
    >>> query, key, value = (torch.ones(1, 1, 4, 2) for _ in range(3))
    >>> seen = observe(query, key, value)
    >>> window(query, key, seen.lse, Region(range(1), range(4)), seen.scoring).mean
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    check_type(query, Tensor, "window", "query")
    call = _make_call(query, key, lse, scoring)
    region.check(*call.sizes)
    if 0 in region.cells:
        return Pooled(call.zeros(*region.cells), call.zeros(*region.cells))
    with torch.no_grad():
        pooled = implementation_for(call).pool_region(call, lse, region)
    rows = cell_counts(len(region.rows), region.zoom)
    columns = cell_counts(len(region.columns), region.zoom)
    pooled.mean.div_((rows[:, None] * columns).to(pooled.mean))
    return pooled


def received(
    query: Queries,
    key: Keys,
    lse: Float[Tensor, "batch head query"],
    scoring: Scoring = DEFAULT_SCORING,
    *,
    labels: Int[Tensor, "batch key"] | None = None,
) -> Received:
    """The weight that each key received from all queries, and each query's mass per label of keys.

    A label is an integer from 0, such as a kind of token or a segment; keys with a negative label
    are left out of `by_label`.

    >>> import torch
    >>> from regard.kernels.observe import observe, received
    >>> query, key, value = (torch.ones(1, 1, 4, 2) for _ in range(3))
    >>> seen = observe(query, key, value)
    >>> received(query, key, seen.lse, labels=torch.tensor([[0, 1, 1, 1]])).by_label[0, 0, 0]
    tensor([0.2500, 0.7500])
    """
    check_type(query, Tensor, "received", "query")
    call = _make_call(query, key, lse, scoring)
    count = 0
    if labels is not None:
        count = _count_labels(labels, (call.sizes[0], call.sizes[3]))
    with torch.no_grad():
        return Received(*implementation_for(call).sum_received(call, lse, labels, count))


def _make_call(query: Tensor, key: Tensor, lse: Tensor, scoring: Scoring) -> Call:
    """The call whose weights are recomputed; values are not needed, so keys stand in for them."""
    call = Call(query, key, key, scoring)
    if lse.shape != call.sizes[:3] or lse.dtype != call.accumulator:
        raise ShapeError(
            f"expected the lse of this call, {call.accumulator} with the axes (batch head query) "
            f"= {call.sizes[:3]}, got {lse.dtype} {tuple(lse.shape)}; take it from its Observation"
        )
    return call


def _count_labels(labels: Tensor, shape: tuple[int, int]) -> int:
    """One more than the largest label, after checking shape and dtype."""
    if labels.shape != shape:
        raise ShapeError(
            f"expected labels with the axes (batch key) = {shape}, got {tuple(labels.shape)}; "
            "give each key of each example one label"
        )
    if labels.dtype.is_floating_point or labels.dtype.is_complex:
        raise InputError(f"expected labels to be whole numbers, got {labels.dtype}; use .long()")
    return max(0, int(labels.max()) + 1) if labels.numel() else 0
