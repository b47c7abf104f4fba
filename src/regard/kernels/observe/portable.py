"""The portable implementation: blocked torch operations, on any device, in any floating dtype."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe.accumulate import (
    StripSoftmax,
    divide_cell_sums,
    empty_atlas,
    empty_statistics,
    empty_top,
    mark_undefined_rows,
    write_atlas,
    write_statistics,
    write_top,
)
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.kernels.observe.region import Pooled, Region
from regard.kernels.observe.strips import (
    NEVER,
    STRIP_SCORES,
    Strip,
    apply_bias_and_mask,
    band_of,
    products,
    recompute_weights,
    strips,
)

LogSumExp = Float[Tensor, "batch head query"]


def observe(call: Call, keep: ObserveOptions) -> Observation:
    """The context, the logsumexp and whatever `keep` asks for, one strip at a time."""
    batch, heads, queries, _ = call.sizes
    lse = call.zeros(batch, heads, queries)
    shape = (batch, heads, queries, call.value.shape[3])
    context = torch.zeros(shape, dtype=call.query.dtype, device=call.query.device)
    statistics = empty_statistics(call) if keep.statistics else None
    top = empty_top(call, keep.top) if keep.top else None
    atlas = empty_atlas(call, keep.atlas) if keep.atlas else None
    cell = (atlas.rows, atlas.columns) if atlas else (1, 1)
    whole_rows = keep.top <= call.sizes[3]
    for strip in strips(call, cell=cell):
        softmax = strip_softmax(call, strip)
        whole_rows = whole_rows and len(strip.band.columns) == call.sizes[3] > 0
        lse[strip.row_index] = (softmax.shift + softmax.total.log())[..., 0]
        if statistics:
            write_statistics(call, strip, softmax, statistics)
        if not strip.band.columns:
            continue
        if keep.context:
            value = call.value[strip.key_index].to(call.accumulator)
            grouped = softmax.weights.view(value.shape[0], -1, value.shape[1])
            mixed = torch.bmm(grouped, value).view(*softmax.total.shape[:2], value.shape[2])
            context[strip.row_index] = mixed.to(context)
        if top:
            write_top(strip, softmax, top)
        if atlas:
            write_atlas(strip, softmax, atlas)
    if atlas:
        divide_cell_sums(call, atlas)
    observation = Observation(
        context if keep.context else None, lse, statistics, top, atlas, call.scoring
    )
    if not whole_rows:
        mark_undefined_rows(observation)
    return observation


def strip_softmax(call: Call, strip: Strip) -> StripSoftmax:
    """The softmax of a strip's scores; rows that see nothing get weights of zero."""
    scores = products(call, strip)
    apply_bias_and_mask(call, strip, scores)
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
    return StripSoftmax(shifted, weights, shift, total, sink)


def pool_region(call: Call, lse: LogSumExp, region: Region) -> Pooled:
    """The sum and the largest weight of each cell of a region."""
    total, largest = call.zeros(*region.cells), call.zeros(*region.cells)
    zoom, (_, across) = region.zoom, region.cells
    height = zoom * max(1, STRIP_SCORES // len(region.columns) // zoom)
    shared, own = region.head // call.group, region.head
    for top in range(0, len(region.rows), height):
        rows = region.rows[top : top + height]
        band = band_of(call, rows, region.columns)
        strip = Strip(band, region.example, range(shared, shared + 1), range(own, own + 1))
        weights = recompute_weights(call, strip, lse)[0]
        down = -(-len(rows) // zoom)
        filled = F.pad(
            weights, (0, across * zoom - weights.shape[1], 0, down * zoom - weights.shape[0])
        )
        cells = filled.view(down, zoom, across, zoom)
        place = slice(top // zoom, top // zoom + down)
        total[place], largest[place] = cells.sum((1, 3)), cells.amax((1, 3))
    return Pooled(total, largest)


def sum_received(
    call: Call, lse: LogSumExp, labels: Int[Tensor, "batch key"] | None, count: int
) -> tuple[Float[Tensor, "batch head key"], Float[Tensor, "batch head query label"] | None]:
    """The sum of each key's column of weights, and each row's mass on each of `count` labels."""
    batch, heads, queries, keys = call.sizes
    total = call.zeros(batch, heads, keys)
    by_label = None if labels is None else call.zeros(batch, heads, queries, count)
    for strip in strips(call):
        weights = recompute_weights(call, strip, lse)
        columns = slice(strip.band.columns.start, strip.band.columns.stop)
        total[strip.example, strip.row_index[1], columns] += weights.sum(1)
        if labels is not None and by_label is not None:
            own = labels[strip.example, columns].to(weights.device)
            member = own[:, None] == torch.arange(count, device=weights.device)
            by_label[strip.row_index] = weights @ member.to(weights)
    # Rows without a softmax are NaN for every key, those out of their reach included.
    undefined = lse.isnan()
    total.masked_fill_(undefined.any(-1)[..., None], torch.nan)
    if by_label is not None:
        by_label.masked_fill_(undefined[..., None], torch.nan)
    return total, by_label
