"""Whether the rows of a map are what weights should be: numbers, not negative, summing to one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.measures.heads import Heads, attending_rows, has_every_column, mean_over_rows
from regard.types import AttentionMap, RecomputableWeights, SummaryOnly, Trace


@dataclass(frozen=True, eq=False)
class RowValidity:
    """Shares from 0 to 1, one for each head; NaN is what cannot be said: the weights are gone."""

    blind: Heads
    """The share of rows that attend to nothing at all."""
    broken: Heads
    """The share of rows that are not finite, or hold a negative weight."""
    beyond: Heads
    """By how much the largest sum of a row, the sink included, is more than one."""
    missing: Heads
    """What rows that attend lack to one, on average: it is on no token that the map has."""
    padding: Heads
    """What of this is known to be on padding: statistics say so, or a softmax gave it away."""


def row_validity(trace: Trace, site: str) -> RowValidity:
    """How far the rows of each head are from weights that are whole.

    Rows of a softmax sum to one over all keys that the model saw. Where a trace has dropped keys as
    padding, as other sites mask them, what its rows lack is the mass that fell there.

    >>> import torch
    >>> from regard.measures.row_validity import row_validity
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.tensor([[0.5, 0.25], [0.0, 0.0]]), ["我", "爱"])
    >>> found = row_validity(trace, "weights")
    >>> found.missing.item(), found.blind.item()
    (0.25, 0.5)
    """
    each = trace[site]
    live, sums = attending_rows(each), _sums(trace, each)
    finite = sums.isfinite() | sums.isnan() & each.row_statistics.entropy.isfinite().cpu()
    sound = live & finite
    missing = mean_over_rows((1 - sums).clamp_min(0).nan_to_num(), sound & ~sums.isnan())
    known = mean_over_rows(each.row_statistics.on_padding.cpu().double(), sound)
    softmax = each.statistics is not None or isinstance(each.source, RecomputableWeights)
    return RowValidity(
        (~live & finite).double().mean(dim=1),
        (~finite | _negative(each)).double().mean(dim=1),
        (sums - 1).masked_fill(~sound, 0.0).amax(dim=1),
        missing,
        torch.fmax(known, missing) if softmax else known,
    )


def mass_on(trace: Trace, site: str, columns: Sequence[int]) -> Heads:
    """The mean mass that each head's rows give to these columns together.

    Rows that stand for tokens of these columns themselves do not count.

    >>> import torch
    >>> from regard.measures.row_validity import mass_on
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    >>> mass_on(Trace.from_weights(weights, ["我", "<pad>"]), "weights", [1])
    tensor([0.2500], dtype=torch.float64)
    """
    each = trace[site]
    labels = torch.ones(len(each.columns), dtype=torch.long)
    labels[list(columns)] = 0
    found = each.received(labels).by_label
    assert found is not None
    own = {each.columns.positions[column] for column in columns}
    same = each.rows.stream == each.columns.stream
    others = torch.tensor([not same or place not in own for place in each.rows.positions])
    return mean_over_rows(found[..., 0].cpu().double(), attending_rows(each) & others)


def _sums(trace: Trace, each: AttentionMap) -> Float[Tensor, "head query"]:
    """The sums of whole rows with the sink; NaN where columns were cut off or weights are gone.

    Those of queries and keys that were rounded for keeping say nothing of the model.
    """
    rounded = isinstance(each.source, RecomputableWeights) and not each.source.exact
    if isinstance(each.source, SummaryOnly) or rounded or not has_every_column(trace, each):
        return torch.full(each.shape[:2], torch.nan, dtype=torch.float64)
    one = torch.zeros(len(each.columns), dtype=torch.long)
    found = each.received(one).by_label
    assert found is not None
    keys = found.cpu().double().sum(dim=2)
    keys = torch.where(keys.isnan(), torch.inf, keys)  # NaN is kept for what is not known
    return keys + each.row_statistics.on_sink.cpu().double()


def _negative(each: AttentionMap) -> Bool[Tensor, "head query"]:
    if isinstance(each.source, SummaryOnly | RecomputableWeights):
        return torch.zeros(each.shape[:2], dtype=torch.bool)
    found = [(weights < 0).any(dim=2).cpu() for _, weights in each.row_strips()]
    return torch.cat(found, dim=1)
