"""The portable kernel: blocked torch operations, on any device and in any floating dtype."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe.accumulate import (
    Softmax,
    empty_atlas,
    empty_statistics,
    empty_top,
    note_atlas,
    note_statistics,
    note_top,
    settle_means,
)
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.kernels.observe.region import Pooled, Region
from regard.kernels.observe.strips import (
    NEVER,
    STRIP_SCORES,
    Strip,
    band_of,
    products,
    recalled,
    settle,
    strips,
)

Level = Float[Tensor, "batch head query"]


def observe(call: Call, keep: ObserveOptions) -> Observation:
    """The context and what was seen, a strip at a time."""
    batch, heads, queries, _ = call.sizes
    lse = call.zeros(batch, heads, queries)
    shape = (batch, heads, queries, call.value.shape[3])
    context = torch.zeros(shape, dtype=call.query.dtype, device=call.query.device)
    statistics = empty_statistics(call) if keep.statistics else None
    top = empty_top(call, keep.top) if keep.top else None
    atlas = empty_atlas(call, keep.atlas) if keep.atlas else None
    cell = (atlas.rows, atlas.columns) if atlas else (1, 1)
    for strip in strips(call, cell=cell):
        row = normalise(call, strip)
        lse[strip.place] = (row.shift + row.total.log())[..., 0]
        if statistics:
            note_statistics(call, strip, row, statistics)
        if not strip.band.columns:
            continue
        if keep.context:
            value = call.value[strip.sources].to(call.accumulator)
            few = row.weights.view(value.shape[0], -1, value.shape[1])
            context[strip.place] = torch.bmm(few, value).view(*row.total.shape[:2], -1).to(context)
        if top:
            note_top(strip, row, top)
        if atlas:
            note_atlas(strip, row, atlas)
    if atlas:
        settle_means(call, atlas)
    return Observation(context if keep.context else None, lse, statistics, top, atlas, call.scoring)


def normalise(call: Call, strip: Strip) -> Softmax:
    """The softmax of a strip; rows that see nothing get weights of zero."""
    scores = products(call, strip)
    settle(call, strip, scores)
    sink = None
    if scores.shape[2]:
        largest = scores.amax(-1, keepdim=True)
    else:
        largest = scores.new_full((*scores.shape[:2], 1), NEVER)
    if call.scoring.sink is not None:
        own = call.scoring.sink.detach()[strip.heads.start : strip.heads.stop].to(scores)
        sink = own[:, None, None].expand_as(largest)
        largest = torch.maximum(largest, sink)
    shift = largest.masked_fill(largest == NEVER, 0)
    shifted = scores.sub_(shift)
    weights = shifted.exp()
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        sink = sink - shift
        total = total + sink.exp()
    weights *= total.reciprocal().masked_fill_(total == 0, 0)
    return Softmax(shifted, weights, shift, total, sink)


def look(call: Call, lse: Level, region: Region) -> Pooled:
    """The weights of a region, each cell's sum and largest."""
    total, largest = call.zeros(*region.cells), call.zeros(*region.cells)
    zoom, (_, across) = region.zoom, region.cells
    height = zoom * max(1, STRIP_SCORES // len(region.columns) // zoom)
    shared, own = region.head // call.group, region.head
    for top in range(0, len(region.rows), height):
        rows = region.rows[top : top + height]
        band = band_of(call, rows, region.columns)
        strip = Strip(band, region.example, range(shared, shared + 1), range(own, own + 1))
        weights = recalled(call, strip, lse)[0]
        down = -(-len(rows) // zoom)
        filled = F.pad(
            weights, (0, across * zoom - weights.shape[1], 0, down * zoom - weights.shape[0])
        )
        cells = filled.view(down, zoom, across, zoom)
        place = slice(top // zoom, top // zoom + down)
        total[place], largest[place] = cells.sum((1, 3)), cells.amax((1, 3))
    return Pooled(total, largest)


def count(
    call: Call, lse: Level, labels: Int[Tensor, "batch key"] | None, names: int
) -> tuple[Float[Tensor, "batch head key"], Float[Tensor, "batch head query label"] | None]:
    """Column sums, and each row's mass per label."""
    batch, heads, queries, keys = call.sizes
    total = call.zeros(batch, heads, keys)
    by_label = None if labels is None else call.zeros(batch, heads, queries, names)
    for strip in strips(call):
        weights = recalled(call, strip, lse)
        columns = slice(strip.band.columns.start, strip.band.columns.stop)
        total[strip.example, strip.place[1], columns] += weights.sum(1)
        if labels is not None and by_label is not None:
            own = labels[strip.example, columns].to(weights.device)
            member = own[:, None] == torch.arange(names, device=weights.device)
            by_label[strip.place] = weights @ member.to(weights)
    return total, by_label
