"""Exact statistics of a map's rows and columns, from its weights, a strip of rows at a time.

These are for maps that were not observed by a kernel, such as weights that a user already has, and
for sums that kernels do not keep. A strip holds at most `MAX_STRIP_WEIGHTS` weights, so that a
map of a hundred thousand tokens is never in memory as a whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.errors import InputError, ShapeError
from regard.kernels.observe import Statistics, received
from regard.kernels.observe.full_weights import statistics_of
from regard.masks import Area, Mask, everything
from regard.types.sources import DenseWeights, RecomputableWeights, SummaryOnly, WeightSource

MAX_STRIP_WEIGHTS = 1 << 21

StripWeights = Float[Tensor, "head query key"]


@dataclass(frozen=True, eq=False)
class ReceivedAttention:
    """How much attention the columns of a map received from all rows.

    `total` sums each column over the rows; what went to a sink is in no column. `by_label` is
    each row's mass on the columns of each label, None if no labels were given.
    """

    total: Float[Tensor, "head key"]
    by_label: Float[Tensor, "head query label"] | None

    def __repr__(self) -> str:
        heads, columns = self.total.shape
        labels = "" if self.by_label is None else f", by {self.by_label.shape[2]} labels"
        return f"<ReceivedAttention of {heads} heads, {columns} columns{labels}>"


def row_strips(
    source: WeightSource, max_weights: int = MAX_STRIP_WEIGHTS
) -> Iterator[tuple[range, StripWeights]]:
    """Runs of rows that cover a map from top to bottom, each with the weights of all its heads.

    In single precision, or double where the source has it. A strip has at most `max_weights`
    numbers, but always at least one row.
    """
    heads, rows, columns = source.sizes
    height = max(1, max_weights // max(1, heads * columns))
    for start in range(0, rows, height):
        run = range(start, min(rows, start + height))
        weights = source.weights_of_rows(run)
        yield run, weights if weights.dtype == torch.float64 else weights.float()


def compute_statistics(source: WeightSource, offset: int) -> Statistics:
    """The statistics of each row that `kernels.observe` gives, computed from the weights.

    Row i stands at column offset + i. Only the columns of the source count: the statistics of a
    part of a map leave out the columns that are outside of it.
    """
    if isinstance(source, SummaryOnly):
        raise InputError(
            "this map keeps no weights and no statistics of its rows; watch again with "
            "keep='windows' or keep='dense'"
        )
    strips = [_strip_statistics(source, offset, *strip) for strip in row_strips(source)]
    if not strips:
        heads, _, columns = source.sizes
        return statistics_of(torch.zeros(heads, 0, max(1, columns)))
    names = [field.name for field in fields(Statistics)]
    return Statistics(
        *(torch.cat([getattr(strip, name) for strip in strips], dim=1) for name in names)
    )


def _strip_statistics(
    source: WeightSource, offset: int, run: range, weights: StripWeights
) -> Statistics:
    """The statistics of a strip of rows, with the share of the sink where there is one."""
    # a map without columns gets one of zeros, as the largest of nothing is not defined
    weights = weights if weights.shape[2] else F.pad(weights, (0, 1))
    statistics = statistics_of(weights, offset + run.start)
    if not isinstance(source, RecomputableWeights) or source.scoring.sink is None:
        return statistics
    # the sink's share is in no column: it is exp(sink - lse), and it adds to the entropy
    lse = source.lse[:, run.start : run.stop].to(weights)
    share = (source.scoring.sink.to(weights)[:, None] - lse).exp()
    entropy = statistics.entropy - torch.special.xlogy(share, share)
    return replace(statistics, entropy=entropy, on_sink=share)


def sum_received(source: WeightSource, labels: Int[Tensor, " key"] | None) -> ReceivedAttention:
    """What each column received, and each row's mass on the columns of each label from 0 on."""
    if labels is not None:
        _check_labels(labels, source.sizes[2])
    if isinstance(source, SummaryOnly):
        raise InputError(
            "this map keeps only statistics of its rows and an atlas, whose cells are too coarse "
            "for sums of single columns; watch again with keep='windows' or keep='dense'"
        )
    if isinstance(source, DenseWeights):
        return _sum_dense(source, labels)
    sums = received(
        source.query[None],
        source.key[None],
        source.lse[None],
        source.scoring,
        labels=None if labels is None else labels[None],
    )
    return ReceivedAttention(sums.total[0], None if sums.by_label is None else sums.by_label[0])


def _check_labels(labels: Tensor, columns: int) -> None:
    """Raise an error unless there is one whole number for each column."""
    if labels.shape != (columns,):
        raise ShapeError(
            f"expected a label for each of the {columns} columns, got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise InputError(f"expected labels to be whole numbers, got {labels.dtype}; use .long()")


def _sum_dense(source: DenseWeights, labels: Tensor | None) -> ReceivedAttention:
    """What each column received, summed over stored weights strip by strip."""
    heads, _, columns = source.sizes
    dtype = torch.float64 if source.weights.dtype == torch.float64 else torch.float32
    total = torch.zeros(heads, columns, dtype=dtype, device=source.weights.device)
    count = 0 if labels is None or not len(labels) else max(0, int(labels.max()) + 1)
    by_label = [total.new_zeros(heads, 0, count)]
    for _, weights in row_strips(source):
        total += weights.sum(dim=1)
        if labels is not None:
            label_numbers = torch.arange(count, device=weights.device)
            one_hot = labels.to(weights.device)[:, None] == label_numbers
            by_label.append(weights @ one_hot.to(weights))
    return ReceivedAttention(total, None if labels is None else torch.cat(by_label, dim=1))


def count_visible(
    mask: Mask | None,
    sizes: tuple[int, int, int],
    offset: int,
    device: torch.device | None = None,
) -> Int[Tensor, "head query"]:
    """How many columns each row may see by its mask, whose tensors are on `device`."""
    heads, rows, columns = sizes
    band, rest = (mask or everything()).split()
    if rest is None:
        # a mask that is only a band around the diagonal: its edges give the count at once
        positions = torch.arange(rows) + offset
        first, stop = torch.zeros_like(positions), torch.full_like(positions, columns)
        if band.left is not None:
            first = (positions - band.left).clamp(0, columns)
        if band.right is not None:
            stop = (positions + band.right + 1).clamp(0, columns)
        return (stop - first).clamp_min(0).expand(heads, rows)
    assert mask is not None
    counts = [torch.zeros(heads, 0, dtype=torch.long)]
    height = max(1, MAX_STRIP_WEIGHTS // max(1, heads * columns))
    for start in range(0, rows, height):
        run = range(start, min(rows, start + height))
        visible = mask.cut(Area(run, range(columns), offset, device))[0]
        counts.append(visible.expand(heads, len(run), columns).sum(dim=2).cpu())
    return torch.cat(counts, dim=1)
