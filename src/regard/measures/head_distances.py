"""Distances between maps: of the heads of one site, and of successive layers.

The distance between two rows is the Jensen-Shannon distance (Endres and Schindelin 2003): the
square root of H((p + q) / 2) - (H(p) + H(q)) / 2 in bits, a metric from 0 (equal) to 1 (no key in
common). Clark et al. (2019, section 6) compare heads by its square. A sink counts as one more key,
and rows whose columns were cut off are divided by what is left of their sum. The distance of two
maps is the mean over the rows that attend to anything in both.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.measures.heads import Heads
from regard.types import AttentionMap, SummaryOnly, Trace

# Maps of up to this many weights are compared row by row, larger ones by the cells of their atlas.
MOST_WEIGHTS = 1 << 24
WEIGHTS_AT_ONCE = 1 << 15  # weights of each head that are compared at once

Table = Float[Tensor, "head head"]
Rows = Float[Tensor, "head query key"]


@dataclass(frozen=True)
class Drift:
    """The distance between the head means of a map and of the map before it, of the same kind."""

    before: str
    after: str
    distance: float


@check_first_argument
def distances(trace: Trace, site: str) -> Table:
    """The distance between each two heads: over all rows, or over cells of the atlas if large.

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


@check_first_argument
def compares_rows(trace: Trace, site: str) -> bool:
    """True if `distances` and `drift` compare every row of this site, not cells of its atlas."""
    return _fits_row_comparison(trace[site])


def row_distances(trace: Trace, site: str) -> Table:
    """The exact distance between each two heads, computed a strip of rows at a time.

    It takes heads^2 / 2 x rows x columns logarithms, and the memory of one strip.
    """
    return _distance_table(_row_strips(trace[site]))


def cell_distances(trace: Trace, site: str) -> Table:
    """The distance between each two heads with rows and columns pooled to cells of the atlas.

    Differences within a cell are lost: heads can be farther apart than this says.
    """
    return _distance_table([_atlas_rows(trace[site])])


@check_first_argument
def redundancy(trace: Trace, site: str) -> Heads:
    """How similar each head is to the most similar other head: 1 for a copy, NaN for a single head.

    It is 1 - distance to the nearest head; Bian et al. (2021) found redundant heads by distances
    between their maps.
    """
    table = distances(trace, site)
    if len(table) < 2:
        return torch.full((len(table),), torch.nan, dtype=torch.float64)
    itself = torch.eye(len(table), dtype=torch.bool)
    return 1 - table.masked_fill(itself, torch.inf).amin(dim=1)


@check_first_argument
def drift(trace: Trace) -> tuple[Drift, ...]:
    """How much attention changes from layer to layer: distances of the head means of maps.

    Successive maps of the same kind with the same rows and columns are compared; NaN where neither
    weights nor an atlas were kept.

    >>> import torch
    >>> from regard.measures.head_distances import drift
    >>> from regard.types import Trace
    >>> layers = torch.stack([torch.eye(3), torch.eye(3), torch.eye(3).roll(1, 0)])[:, None]
    >>> [step.distance for step in drift(Trace.from_weights(layers, ["我", "爱", "你"]))]
    [0.0, 1.0]
    """
    groups: dict[object, list[AttentionMap]] = {}
    for attention_map in trace:
        groups.setdefault(
            (attention_map.kind, attention_map.rows, attention_map.columns), []
        ).append(attention_map)
    order = [attention_map.site for attention_map in trace]
    drifts = [
        Drift(one.site, other.site, _distance_of_means(one, other))
        for group in groups.values()
        for one, other in pairwise(group)
    ]
    return tuple(sorted(drifts, key=lambda step: order.index(step.after)))


def _fits_row_comparison(attention_map: AttentionMap) -> bool:
    """True if the weights were kept, and are few or have no atlas to be compared by instead."""
    heads, rows, columns = attention_map.shape
    fits = heads * rows * columns <= MOST_WEIGHTS or attention_map.atlas is None
    return fits and not isinstance(attention_map.source, SummaryOnly)


def _distance_of_means(one: AttentionMap, other: AttentionMap) -> float:
    """The distance between the head means of two maps, by rows or else by cells of the atlas."""
    both = (one, other)
    if all(map(_fits_row_comparison, both)):
        pairs = zip(*(_row_strips(attention_map) for attention_map in both), strict=True)
    elif all(attention_map.atlas is not None for attention_map in both):
        pairs = zip(*([_atlas_rows(attention_map)] for attention_map in both), strict=True)
    else:
        return math.nan
    means = (torch.stack([rows.mean(dim=0) for rows in pair]) for pair in pairs)
    return float(_distance_table(means)[0, 1])


def _row_strips(attention_map: AttentionMap) -> Iterator[Rows]:
    """The weights of all rows with the sink as last column, in strips of rows."""
    sink = attention_map.row_statistics.on_sink
    for run, weights in attention_map.row_strips(WEIGHTS_AT_ONCE * attention_map.heads):
        sink_column = sink[:, run.start : run.stop, None].to(weights)
        yield torch.cat([weights, sink_column], dim=2).cpu().double()


def _atlas_rows(attention_map: AttentionMap) -> Rows:
    """The mean rows of the atlas: the mass of each column of cells, and the sink as last column."""
    if attention_map.atlas is None:
        raise InputError(
            f"{attention_map.site!r} keeps neither its weights nor an atlas, so that its heads "
            "cannot be compared; watch again with keep='windows' or keep='dense', or with an atlas"
        )
    columns = len(attention_map.columns)
    # a cell holds the mean weight of its columns; the last column of cells may be narrower
    widths = [
        min(attention_map.atlas.columns, columns - n)
        for n in range(0, columns, attention_map.atlas.columns)
    ]
    mass = attention_map.atlas.mean.cpu().double() * torch.tensor(widths)
    sink = (
        attention_map.row_statistics.on_sink.cpu().double().split(attention_map.atlas.rows, dim=1)
    )
    pooled = torch.stack([part.mean(dim=1) for part in sink], dim=1)
    return torch.cat([mass, pooled[..., None]], dim=2)


def _distance_table(strips: Iterable[Rows]) -> Table:
    """The mean over rows of the distance between each two maps, from strips (map row key)."""
    total = count = torch.zeros((), dtype=torch.float64)
    for rows in strips:
        sums = rows.sum(dim=2, keepdim=True)
        attends = sums[..., 0] != 0
        shares = rows / sums.masked_fill(sums == 0, 1)
        both_attend = attends[:, None] & attends[None]
        total = total + _row_distances(shares).where(both_attend, 0.0).sum(dim=2)
        count = count + both_attend.sum(dim=2)
    return total / count


def _row_distances(shares: Rows) -> Float[Tensor, "head head query"]:
    """The distance between the rows of each two maps."""
    heads, rows, _ = shares.shape
    entropy = _entropy_in_bits(shares)
    table = shares.new_zeros(heads, heads, rows)
    for head in range(heads - 1):
        middle = _entropy_in_bits((shares[head] + shares[head + 1 :]).mul_(0.5))
        # rounding can make the divergence of equal rows slightly negative
        distance = (middle - (entropy[head] + entropy[head + 1 :]) / 2).clamp_min(0).sqrt()
        table[head, head + 1 :] = table[head + 1 :, head] = distance
    return table


def _entropy_in_bits(shares: Float[Tensor, "head query key"]) -> Float[Tensor, "head query"]:
    """The entropy of each row in bits."""
    return -shares.clamp_min(_TINY).log2_().mul_(shares).sum(dim=2)


_TINY = torch.finfo(torch.float64).tiny
