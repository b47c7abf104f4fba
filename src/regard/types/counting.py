"""Exact numbers of a map's rows and columns, a strip of rows at a time, for every source."""

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
from regard.types.sources import Dense, Recomputable, Source, Summary

STRIP = 1 << 21  # weights that are held at once

Weights = Float[Tensor, "head query key"]


@dataclass(frozen=True, eq=False)
class Received:
    """What the columns of a map received in all: `kernels.Received`, of one example.

    `total` sums each column over all rows; what went to a sink is in no column's total.
    `by_label` is each row's mass on the columns of each label; None if none were given.
    """

    total: Float[Tensor, "head key"]
    by_label: Float[Tensor, "head query label"] | None


def strips(source: Source, most: int = STRIP) -> Iterator[tuple[range, Weights]]:
    """Runs of rows that cover a source from top to bottom, and the weights of all their heads.

    In single precision, or double where the source has it; at most `most` numbers at once, or
    one row.
    """
    heads, rows, columns = source.sizes
    tall = max(1, most // max(1, heads * columns))
    for start in range(0, rows, tall):
        run = range(start, min(rows, start + tall))
        weights = source.rows(run)
        yield run, weights if weights.dtype == torch.float64 else weights.float()


def statistics(source: Source, offset: int) -> Statistics:
    """The numbers that `kernels.observe` gives, from the weights; row i is at column offset + i.

    They are of the columns that the source has: a part knows nothing of the others.
    """
    if isinstance(source, Summary):
        raise InputError(
            "this map keeps no weights and no statistics of its rows; watch again with "
            "keep='windows' or keep='dense'"
        )
    found = [_statistics(source, offset, run, weights) for run, weights in strips(source)]
    if not found:
        heads, _, columns = source.sizes
        return statistics_of(torch.zeros(heads, 0, max(1, columns)))
    names = [each.name for each in fields(Statistics)]
    return Statistics(*(torch.cat([getattr(each, n) for each in found], dim=1) for n in names))


def _statistics(source: Source, offset: int, run: range, weights: Tensor) -> Statistics:
    weights = weights if weights.shape[2] else F.pad(weights, (0, 1))
    found = statistics_of(weights, offset + run.start)
    if not isinstance(source, Recomputable) or source.scoring.sink is None:
        return found
    lse = source.lse[:, run.start : run.stop].to(weights)
    share = (source.scoring.sink.to(weights)[:, None] - lse).exp()
    entropy = found.entropy - torch.special.xlogy(share, share)
    return replace(found, entropy=entropy, on_sink=share)


def sums(source: Source, labels: Int[Tensor, " key"] | None) -> Received:
    """What each column received, and each row's mass on the columns of each label from 0 on."""
    if labels is not None:
        _check_labels(labels, source.sizes[2])
    if isinstance(source, Summary):
        raise InputError(
            "this map keeps only statistics of its rows and an atlas, whose cells are too coarse "
            "for sums of single columns; watch again with keep='windows' or keep='dense'"
        )
    if isinstance(source, Dense):
        return _dense_sums(source, labels)
    found = received(
        source.query[None],
        source.key[None],
        source.lse[None],
        source.scoring,
        labels=None if labels is None else labels[None],
    )
    return Received(found.total[0], None if found.by_label is None else found.by_label[0])


def _check_labels(labels: Tensor, columns: int) -> None:
    if labels.shape != (columns,):
        raise ShapeError(
            f"expected a label for each of the {columns} columns, got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise InputError(f"expected labels to be whole numbers, got {labels.dtype}; use .long()")


def _dense_sums(source: Dense, labels: Tensor | None) -> Received:
    heads, _, columns = source.sizes
    kind = torch.float64 if source.weights.dtype == torch.float64 else torch.float32
    total = torch.zeros(heads, columns, dtype=kind, device=source.weights.device)
    names = 0 if labels is None or not len(labels) else max(0, int(labels.max()) + 1)
    by_label = [total.new_zeros(heads, 0, names)]
    for _, weights in strips(source):
        total += weights.sum(dim=1)
        if labels is not None:
            own = labels.to(weights.device)[:, None] == torch.arange(names, device=weights.device)
            by_label.append(weights @ own.to(weights))
    return Received(total, None if labels is None else torch.cat(by_label, dim=1))


def visible(
    mask: Mask | None,
    sizes: tuple[int, int, int],
    offset: int,
    device: torch.device | None = None,
) -> Int[Tensor, "head query"]:
    """How many columns each row may see by its mask, whose tensors are on `device`."""
    heads, rows, columns = sizes
    band, rest = (mask or everything()).split()
    if rest is None:
        place = torch.arange(rows) + offset
        first, stop = torch.zeros_like(place), torch.full_like(place, columns)
        if band.left is not None:
            first = (place - band.left).clamp(0, columns)
        if band.right is not None:
            stop = (place + band.right + 1).clamp(0, columns)
        return (stop - first).clamp_min(0).expand(heads, rows)
    assert mask is not None
    found = [torch.zeros(heads, 0, dtype=torch.long)]
    tall = max(1, STRIP // max(1, heads * columns))
    for start in range(0, rows, tall):
        run = range(start, min(rows, start + tall))
        seen = mask.cut(Area(run, range(columns), offset, device))[0]
        found.append(seen.expand(heads, len(run), columns).sum(dim=2).cpu())
    return torch.cat(found, dim=1)
