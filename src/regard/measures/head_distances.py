"""How alike maps are: heads of one site among each other, and layers that follow each other.

The distance between two rows is that of Jensen and Shannon (Endres and Schindelin 2003): the square
root of H((p + q) / 2) - (H(p) + H(q)) / 2 in bits, a metric from 0 (the same) to 1 (no key in
common). Clark et al. (2019, section 6) compare heads by its square. A sink is one more outcome, and
rows of which columns were cut off are shares of what is left. The distance of two maps is the mean
over the rows that attend to anything in both.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.measures.heads import Heads
from regard.types import AttentionMap, SummaryOnly, Trace

MOST = 1 << 24  # weights of a map up to which every row is compared
STRIP = 1 << 15  # weights of a head that are compared at once

Table = Float[Tensor, "head head"]
Rows = Float[Tensor, "head query key"]


@dataclass(frozen=True)
class Drift:
    """How far a layer's head-mean map is from that of the layer before, of the same kind."""

    before: str
    after: str
    distance: float


def distances(trace: Trace, site: str) -> Table:
    """The distance between each two heads: of all rows, or of the atlas' cells for large maps.

    Up to 2^24 weights it is `row_distances`; beyond, and where only the atlas was kept, it is
    `cell_distances` if there is an atlas. `compares_rows` tells which.

    >>> import torch
    >>> from regard.measures.head_distances import distances
    >>> from regard.types import Trace
    >>> weights = torch.stack([torch.eye(3), torch.eye(3), torch.eye(3).roll(1, 0)])
    >>> distances(Trace.from_weights(weights, ["我", "爱", "你"]), "weights")[0].tolist()
    [0.0, 0.0, 1.0]
    """
    if compares_rows(trace, site):
        return row_distances(trace, site)
    return cell_distances(trace, site)


def compares_rows(trace: Trace, site: str) -> bool:
    """Whether `distances` and `drift` compare every row of this site, not cells of its atlas."""
    return _by_rows(trace[site])


def row_distances(trace: Trace, site: str) -> Table:
    """The distance between each two heads, exact, a strip of rows at a time.

    It takes heads^2 / 2 x rows x columns logarithms, and the memory of one strip.
    """
    return _table(_rows(trace[site]))


def cell_distances(trace: Trace, site: str) -> Table:
    """The distance between each two heads with rows and columns pooled to the atlas' cells.

    What differs within a cell alone is not seen: heads can be farther apart than this says.
    """
    return _table([_cells(trace[site])])


def redundancy(trace: Trace, site: str) -> Heads:
    """How alike each head is to the one most like it: 1 for a copy; NaN for a head alone.

    1 - distance to the nearest head, after the redundancy that Bian et al. (2021) found by
    distances between the maps of heads.
    """
    table = distances(trace, site)
    if len(table) < 2:
        return torch.full((len(table),), torch.nan, dtype=torch.float64)
    alone = torch.eye(len(table), dtype=torch.bool)
    return 1 - table.masked_fill(alone, torch.inf).amin(dim=1)


def drift(trace: Trace) -> tuple[Drift, ...]:
    """How much attention changes from layer to layer: between the head means of successive maps.

    Those of the same kind with the same rows and columns are compared, in the order in which they
    ran; NaN where nothing is kept that could be.

    >>> import torch
    >>> from regard.measures.head_distances import drift
    >>> from regard.types import Trace
    >>> layers = torch.stack([torch.eye(3), torch.eye(3), torch.eye(3).roll(1, 0)])[:, None]
    >>> [each.distance for each in drift(Trace.from_weights(layers, ["我", "爱", "你"]))]
    [0.0, 1.0]
    """
    groups: dict[object, list[AttentionMap]] = {}
    for each in trace:
        groups.setdefault((each.kind, each.rows, each.columns), []).append(each)
    order = [each.site for each in trace]
    found = [
        Drift(one.site, other.site, _between(one, other))
        for group in groups.values()
        for one, other in pairwise(group)
    ]
    return tuple(sorted(found, key=lambda each: order.index(each.after)))


def _by_rows(each: AttentionMap) -> bool:
    heads, rows, columns = each.shape
    fits = heads * rows * columns <= MOST or each.atlas is None
    return fits and not isinstance(each.source, SummaryOnly)


def _between(one: AttentionMap, other: AttentionMap) -> float:
    both = (one, other)
    if all(map(_by_rows, both)):
        pairs = zip(*(_rows(each) for each in both), strict=True)
    elif all(each.atlas is not None for each in both):
        pairs = zip(*([_cells(each)] for each in both), strict=True)
    else:
        return math.nan
    means = (torch.stack([rows.mean(dim=0) for rows in pair]) for pair in pairs)
    return float(_table(means)[0, 1])


def _rows(each: AttentionMap) -> Iterator[Rows]:
    """All rows as shares of keys and sink, in strips that are as tall for any number of heads."""
    sink = each.row_statistics.on_sink
    for run, weights in each.row_strips(STRIP * each.heads):
        own = sink[:, run.start : run.stop, None].to(weights)
        yield torch.cat([weights, own], dim=2).cpu().double()


def _cells(each: AttentionMap) -> Rows:
    """The mean rows of the atlas' cells as shares of its columns and the sink."""
    if each.atlas is None:
        raise InputError(
            f"{each.site!r} keeps neither its weights nor an atlas, so that its heads cannot be "
            "compared; watch again with keep='windows' or keep='dense', or with an atlas"
        )
    columns = len(each.columns)
    wide = [min(each.atlas.columns, columns - n) for n in range(0, columns, each.atlas.columns)]
    mass = each.atlas.mean.cpu().double() * torch.tensor(wide)
    sink = each.row_statistics.on_sink.cpu().double().split(each.atlas.rows, dim=1)
    pooled = torch.stack([part.mean(dim=1) for part in sink], dim=1)
    return torch.cat([mass, pooled[..., None]], dim=2)


def _table(strips: Iterable[Rows]) -> Table:
    """The mean over rows of the distance between each two maps, from strips (map row outcome)."""
    total = count = torch.zeros((), dtype=torch.float64)
    for rows in strips:
        sums = rows.sum(dim=2, keepdim=True)
        live = sums[..., 0] != 0
        shares = rows / sums.masked_fill(sums == 0, 1)
        both = live[:, None] & live[None]
        total = total + _apart(shares).where(both, 0.0).sum(dim=2)
        count = count + both.sum(dim=2)
    return total / count


def _apart(shares: Rows) -> Float[Tensor, "head head query"]:
    """The distance between the rows of each two maps."""
    heads, rows, _ = shares.shape
    own = _bits(shares)
    found = shares.new_zeros(heads, heads, rows)
    for head in range(heads - 1):
        middle = _bits((shares[head] + shares[head + 1 :]).mul_(0.5))
        gained = (middle - (own[head] + own[head + 1 :]) / 2).clamp_min(0).sqrt()
        found[head, head + 1 :] = found[head + 1 :, head] = gained
    return found


def _bits(shares: Float[Tensor, "head query key"]) -> Float[Tensor, "head query"]:
    """Entropy in bits."""
    return -shares.clamp_min(_TINY).log2_().mul_(shares).sum(dim=2)


_TINY = torch.finfo(torch.float64).tiny
