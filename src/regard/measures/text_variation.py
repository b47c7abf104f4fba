"""How much a head's map depends on the text: the distance between its maps for several texts."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.measures.heads import Heads, mean_over_rows
from regard.types import AttentionMap, SummaryOnly, Trace

Weights = Float[Tensor, "head query key"]

MOST_TOKENS = 64  # rows and columns that are compared at most
LEAST_ROWS = 4  # rows with different tokens that a comparison needs


def text_variation(traces: Sequence[Trace], site: str) -> Float[Tensor, "pair head"]:
    """The distance between the maps of each two successive texts, for each head.

    It is the Jensen-Shannon distance of `head_distances`, 0 for a head that attends in the same way
    whatever the text is. Only rows whose tokens differ are compared, over the columns that both
    texts have, at most the first 64; pairs with fewer than four such rows are left out.

    >>> import torch
    >>> from regard.measures.text_variation import text_variation
    >>> from regard.types import Trace
    >>> texts = ["abcde", "vwxyz"]
    >>> same = [Trace.from_weights(torch.eye(5), list(text)) for text in texts]
    >>> text_variation(same, "weights")
    tensor([[0.]], dtype=torch.float64)
    """
    with_site = [
        trace for trace in traces if any(attention_map.site == site for attention_map in trace.maps)
    ]
    distances = [_distance_of_traces(*pair, site) for pair in pairwise(with_site)]
    known = [of_heads for of_heads in distances if of_heads is not None]
    heads = with_site[0][site].heads if with_site else 0
    return torch.stack(known) if known else torch.zeros(0, heads, dtype=torch.float64)


def _distance_of_traces(one: Trace, other: Trace, site: str) -> Heads | None:
    """The distance between two traces' maps of a site; None if they cannot be compared."""
    maps = (one[site], other[site])
    if any(isinstance(attention_map.source, SummaryOnly) for attention_map in maps):
        return None
    rows, columns = (
        min(MOST_TOKENS, *(attention_map.shape[axis] for attention_map in maps)) for axis in (1, 2)
    )
    differing = _rows_that_differ(one, other, site, rows)
    if int(differing.sum()) < LEAST_ROWS or columns < LEAST_ROWS:
        return None
    first, second = (_first_weights(attention_map, rows, columns) for attention_map in maps)
    return _mean_distance(first[:, differing], second[:, differing])


def _rows_that_differ(one: Trace, other: Trace, site: str, rows: int) -> Bool[Tensor, " query"]:
    """True for the rows whose tokens differ; for all rows where tokens are not known."""
    sides = []
    for trace in (one, other):
        tokens = trace.tokens(trace[site].rows)
        sides.append((tokens.ids or tokens.texts) if tokens.named else None)
    if None in sides:
        return torch.ones(rows, dtype=torch.bool)
    pairs = zip(*(side[:rows] for side in sides), strict=True)  # type: ignore[index]
    return torch.tensor([mine != theirs for mine, theirs in pairs], dtype=torch.bool)


def _first_weights(attention_map: AttentionMap, rows: int, columns: int) -> Weights:
    """The weights between the first rows and the first columns of a map."""
    part = attention_map.part(range(rows), range(columns))
    return part.weights().cpu().double()


def _mean_distance(one: Weights, other: Weights) -> Heads:
    """The mean Jensen-Shannon distance over the rows that attend to anything in both maps."""
    sums = [weights.sum(dim=2, keepdim=True) for weights in (one, other)]
    attending = (sums[0] > 0)[..., 0] & (sums[1] > 0)[..., 0]
    first, second = (
        weights / row_sums.clamp_min(torch.finfo(weights.dtype).tiny)
        for weights, row_sums in zip((one, other), sums, strict=True)
    )
    divergence = (
        _entropy_in_bits((first + second) / 2)
        - (_entropy_in_bits(first) + _entropy_in_bits(second)) / 2
    )
    # rounding can make the divergence of equal rows slightly negative
    return mean_over_rows(divergence.clamp_min(0).sqrt(), attending)


def _entropy_in_bits(shares: Weights) -> Float[Tensor, "head query"]:
    """The entropy of each row in bits."""
    entropy: Tensor = -torch.special.xlogy(shares, shares).sum(dim=2) / math.log(2)
    return entropy
