"""Weights of an earlier call, recomputed from its queries, keys, logsumexp and scoring."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.arguments import check_type
from regard.errors import InputError, ShapeError
from regard.kernels.memory import fake_mode_of, has_plain_memory
from regard.kernels.observe.call import Call, Keys, Queries, Scoring
from regard.kernels.observe.choice import PORTABLE, Implementation, implementation_for
from regard.kernels.observe.region import Pooled, Received, Region, cell_counts

DEFAULT_SCORING = Scoring()
MAX_LABELS = 2**31  # labels are int32 in C++


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
    if not region.rows or not region.columns:
        return Pooled(call.zeros(*region.cells), call.zeros(*region.cells))
    # A larger zoom is one cell too, but its square may not fit into int64.
    zoom = min(region.zoom, max(len(region.rows), len(region.columns)))
    region = replace(region, zoom=zoom)
    with torch.no_grad(), fake_mode_of(query):
        pooled = _implementation(call, lse).pool_region(call, lse, region)
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
    with torch.no_grad(), fake_mode_of(query):
        sums = _implementation(call, lse, labels).sum_received(call, lse, labels, count)
    return Received(*sums)


def _implementation(call: Call, *others: Tensor | None) -> Implementation:
    """The implementation that takes the call and the other tensors."""
    return implementation_for(call) if has_plain_memory(*others) else PORTABLE


def _make_call(query: Tensor, key: Tensor, lse: Tensor, scoring: Scoring) -> Call:
    """The call whose weights are recomputed; values are not needed, so keys stand in for them."""
    call = Call(query, key, key, scoring)
    kind, device = call.accumulator, query.device
    if lse.shape != call.sizes[:3] or lse.dtype != kind or lse.device != device:
        raise ShapeError(
            f"expected the lse of this call, {kind} on {device} with the axes (batch head query) "
            f"= {call.sizes[:3]}, got {lse.dtype} {tuple(lse.shape)} on {lse.device}; take it "
            "from its Observation"
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
    count = max(0, int(labels.max()) + 1) if labels.numel() else 0
    if count > MAX_LABELS:
        raise InputError(
            f"expected labels below 2**31, got {count - 1}; number the labels from 0 without gaps"
        )
    return count
