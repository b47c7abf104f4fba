"""How much a head's map depends on the text: the distance between its maps of several texts."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.measures.heads import Heads, mean_over_rows
from regard.types import AttentionMap, SummaryOnly, Trace

Weights = Float[Tensor, "head query key"]

MOST = 64  # rows and columns that are compared
LEAST = 4  # rows of another token that a comparison needs


def text_variation(traces: Sequence[Trace], site: str) -> Float[Tensor, "pair head"]:
    """The distance between the maps of each two successive texts, head by head.

    It is the Jensen-Shannon distance of `measures.sharing`, 0 for a head that looks the same
    whatever it reads. Rows count whose own token differs, over the columns that both texts have,
    the first 64 at most; pairs with fewer than four such rows are left out.

    >>> import torch
    >>> from regard.measures.text_variation import text_variation
    >>> from regard.types import Trace
    >>> texts = ["abcde", "vwxyz"]
    >>> same = [Trace.from_weights(torch.eye(5), list(text)) for text in texts]
    >>> text_variation(same, "weights")
    tensor([[0.]], dtype=torch.float64)
    """
    having = [trace for trace in traces if any(each.site == site for each in trace.maps)]
    found = [_between(*pair, site) for pair in pairwise(having)]
    known = [each for each in found if each is not None]
    heads = having[0][site].heads if having else 0
    return torch.stack(known) if known else torch.zeros(0, heads, dtype=torch.float64)


def _between(one: Trace, other: Trace, site: str) -> Heads | None:
    maps = (one[site], other[site])
    if any(isinstance(each.source, SummaryOnly) for each in maps):
        return None
    rows, columns = (min(MOST, *(each.shape[axis] for each in maps)) for axis in (1, 2))
    new = _differing(one, other, site, rows)
    if int(new.sum()) < LEAST or columns < LEAST:
        return None
    return _distance(*(_corner(each, rows, columns)[:, new] for each in maps))


def _differing(one: Trace, other: Trace, site: str, rows: int) -> Bool[Tensor, " query"]:
    """The rows whose token is another one; all where tokens are not known."""
    sides = []
    for trace in (one, other):
        tokens = trace.tokens(trace[site].rows)
        sides.append((tokens.ids or tokens.texts) if tokens.named else None)
    if None in sides:
        return torch.ones(rows, dtype=torch.bool)
    pairs = zip(*(side[:rows] for side in sides), strict=True)  # type: ignore[index]
    return torch.tensor([mine != theirs for mine, theirs in pairs], dtype=torch.bool)


def _corner(each: AttentionMap, rows: int, columns: int) -> Weights:
    part = each.part(range(rows), range(columns))
    return part.weights().cpu().double()


def _distance(one: Weights, other: Weights) -> Heads:
    """The mean Jensen-Shannon distance of rows that attend to anything in both."""
    sums = [each.sum(dim=2, keepdim=True) for each in (one, other)]
    live = (sums[0] > 0)[..., 0] & (sums[1] > 0)[..., 0]
    first, second = (
        each / whole.clamp_min(torch.finfo(each.dtype).tiny)
        for each, whole in zip((one, other), sums, strict=True)
    )
    gained = _bits((first + second) / 2) - (_bits(first) + _bits(second)) / 2
    return mean_over_rows(gained.clamp_min(0).sqrt(), live)


def _bits(shares: Weights) -> Float[Tensor, "head query"]:
    """Entropy in bits."""
    found: Tensor = -torch.special.xlogy(shares, shares).sum(dim=2) / math.log(2)
    return found
