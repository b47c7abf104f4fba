"""Whether the rows of a map are valid weights: finite, not negative, and summing to one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.measures.heads import Heads, attending_rows, has_every_column, mean_over_rows
from regard.types import AttentionMap, RecomputableWeights, SummaryOnly, Trace


@dataclass(frozen=True, eq=False)
class RowValidity:
    """How far rows are from valid weights, one number for each head.

    NaN marks what is unknown because only statistics were kept.
    """

    empty_rows: Heads
    """The share of rows that attend to nothing at all."""
    invalid_rows: Heads
    """The share of rows that are not finite, or have a negative weight."""
    excess: Heads
    """The largest sum of a row, the sink included, minus one."""
    missing: Heads
    """What rows lack to a sum of one, on average: weight on no token that the map has."""
    on_padding: Heads
    """The weight on padding: from statistics, or what a softmax lacks where padding was cut off."""


def row_validity(trace: Trace, site: str) -> RowValidity:
    """How far the rows of each head are from valid weights.

    Rows of a softmax sum to one over all keys that the model saw. Keys that other sites mask are
    dropped from a trace as padding; what the rows of this site then lack is the weight on them.

    >>> import torch
    >>> from regard.measures.row_validity import row_validity
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.tensor([[0.5, 0.25], [0.0, 0.0]]), ["我", "爱"])
    >>> validity = row_validity(trace, "weights")
    >>> validity.missing.item(), validity.empty_rows.item()
    (0.25, 0.5)
    """
    attention_map = trace[site]
    attending, sums = attending_rows(attention_map), _row_sums(trace, attention_map)
    finite = _has_finite_weights(attention_map, sums)
    sound = attending & finite
    missing = mean_over_rows((1 - sums).clamp_min(0).nan_to_num(), sound & ~sums.isnan())
    known = mean_over_rows(attention_map.row_statistics.on_padding.cpu().double(), sound)
    softmax = attention_map.statistics is not None or isinstance(
        attention_map.source, RecomputableWeights
    )
    return RowValidity(
        (~attending & finite).double().mean(dim=1),
        (~finite | _has_negative(attention_map)).double().mean(dim=1),
        (sums - 1).masked_fill(~sound, 0.0).amax(dim=1),
        missing,
        torch.fmax(known, missing) if softmax else known,
    )


def invalid_rows(trace: Trace, site: str) -> Bool[Tensor, "head query"]:
    """True for the rows of each head that are not finite, or have a negative weight.

    >>> import torch
    >>> from regard.measures.row_validity import invalid_rows
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.5, 0.5], [torch.nan, 0.5]])
    >>> invalid_rows(Trace.from_weights(weights, ["我", "爱"]), "weights")
    tensor([[False,  True]])
    """
    attention_map = trace[site]
    sums = _row_sums(trace, attention_map)
    return ~_has_finite_weights(attention_map, sums) | _has_negative(attention_map)


def mass_on(trace: Trace, site: str, columns: Sequence[int]) -> Heads:
    """The mean weight that each head's rows give to these columns together.

    Rows of the same tokens as these columns do not count.

    >>> import torch
    >>> from regard.measures.row_validity import mass_on
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    >>> mass_on(Trace.from_weights(weights, ["我", "<pad>"]), "weights", [1])
    tensor([0.2500], dtype=torch.float64)
    """
    attention_map = trace[site]
    labels = torch.ones(len(attention_map.columns), dtype=torch.long)
    labels[list(columns)] = 0
    by_label = attention_map.received(labels).by_label
    assert by_label is not None
    own = {attention_map.columns.positions[column] for column in columns}
    same = attention_map.rows.stream == attention_map.columns.stream
    others = torch.tensor(
        [not same or position not in own for position in attention_map.rows.positions]
    )
    return mean_over_rows(by_label[..., 0].cpu().double(), attending_rows(attention_map) & others)


def _has_finite_weights(
    attention_map: AttentionMap, sums: Float[Tensor, "head query"]
) -> Bool[Tensor, "head query"]:
    """True for rows whose weights, the sink's included, are finite."""
    numbers = attention_map.row_statistics
    # where the sum of a row is unknown (NaN), a finite entropy shows that its weights are finite
    finite = sums.isfinite() | sums.isnan() & numbers.entropy.isfinite().cpu()
    return finite & numbers.on_sink.isfinite().cpu()


def _row_sums(trace: Trace, attention_map: AttentionMap) -> Float[Tensor, "head query"]:
    """The sums of rows with the sink; NaN where columns were cut off or weights were not kept.

    They are also NaN for queries and keys that were rounded for storage: those sums say nothing
    about the model.
    """
    rounded = (
        isinstance(attention_map.source, RecomputableWeights) and not attention_map.source.exact
    )
    if (
        isinstance(attention_map.source, SummaryOnly)
        or rounded
        or not has_every_column(trace, attention_map)
    ):
        return torch.full(attention_map.shape[:2], torch.nan, dtype=torch.float64)
    # with the same label for all columns, the weight on that label is the sum of the row
    labels = torch.zeros(len(attention_map.columns), dtype=torch.long)
    by_label = attention_map.received(labels).by_label
    assert by_label is not None
    sums = by_label.cpu().double().sum(dim=2)
    sums = torch.where(sums.isnan(), torch.inf, sums)  # NaN is reserved for unknown sums
    return sums + attention_map.row_statistics.on_sink.cpu().double()


def _has_negative(attention_map: AttentionMap) -> Bool[Tensor, "head query"]:
    """True for rows with a negative weight; False for a softmax and where only statistics exist."""
    if isinstance(attention_map.source, SummaryOnly | RecomputableWeights):
        return torch.zeros(attention_map.shape[:2], dtype=torch.bool)
    strips = [(weights < 0).any(dim=2).cpu() for _, weights in attention_map.row_strips()]
    return torch.cat(strips, dim=1)
