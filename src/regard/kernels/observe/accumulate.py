"""The result tensors of an observation, and how the numbers of one strip are written to them."""

from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.memory import has_plain_memory
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Atlas, Observation, Statistics, Top, cell_side
from regard.kernels.observe.region import cell_counts
from regard.kernels.observe.strips import Strip

# A score this far below the largest has a weight of exactly zero.
LOWEST = -1e4


@dataclass(frozen=True, eq=False)
class StripSoftmax:
    """The softmax of one strip: scores less `shift`, weights, and the sum that normalises them."""

    shifted: Float[Tensor, "head query key"]
    weights: Float[Tensor, "head query key"]
    shift: Float[Tensor, "head query 1"]
    total: Float[Tensor, "head query 1"]
    sink: Float[Tensor, "head query 1"] | None


_STATISTIC_NAMES = tuple(field.name for field in fields(Statistics))


def empty_statistics(call: Call) -> Statistics:
    """Statistics of the call's shape, all zero, for an implementation to fill."""
    # One allocation for all eleven: for a short call, allocating is most of the time.
    tensors = call.zeros(len(_STATISTIC_NAMES), *call.sizes[:3]).unbind()
    by_name = dict(zip(_STATISTIC_NAMES, tensors, strict=True))
    key = by_name["largest_key"]
    key = key.view(torch.int32) if key.dtype == torch.float32 else key.to(torch.int32)
    by_name["largest_key"] = key.fill_(-1)
    return Statistics(**by_name)


def empty_top(call: Call, top: int) -> Top:
    """The largest weights of each row before any is known: weights 0, keys -1."""
    shape, device = (*call.sizes[:3], top), call.query.device
    return Top(call.zeros(*shape), torch.full(shape, -1, dtype=torch.int32, device=device))


def empty_atlas(call: Call, most: int) -> Atlas:
    """An atlas of zeros of at most `most` cells on a side."""
    batch, heads, queries, keys = call.sizes
    rows, columns = cell_side(queries, most), cell_side(keys, most)
    shape = (batch, heads, -(-queries // rows), -(-keys // columns))
    return Atlas(call.zeros(*shape), call.zeros(*shape), rows, columns)


def write_top(strip: Strip, softmax: StripSoftmax, top: Top) -> None:
    """Write the largest weights of the strip's rows and their keys."""
    most = min(top.weights.shape[3], len(strip.band.columns))
    weights, keys = softmax.weights.topk(most, dim=-1)
    top.weights[strip.row_index][..., :most] = weights
    keys = (keys + strip.band.columns.start).masked_fill_(~(weights > 0), -1)
    top.keys[strip.row_index][..., :most] = keys.to(torch.int32)


def write_atlas(strip: Strip, softmax: StripSoftmax, atlas: Atlas) -> None:
    """Write the sum and the maximum of the strip's cells; `divide_cell_sums` makes sums means."""
    high, wide = atlas.rows, atlas.columns
    heads, queries, keys = softmax.weights.shape
    down, across = -(-queries // high), -(-keys // wide)
    weights = softmax.weights
    if queries % high or keys % wide:
        weights = F.pad(weights, (0, across * wide - keys, 0, down * high - queries))
    cells = weights.view(heads, down, high, across, wide)
    top, left = strip.band.rows.start // high, strip.band.columns.start // wide
    place = (*strip.row_index[:2], slice(top, top + down), slice(left, left + across))
    # Rows first: their reduction runs along memory.
    atlas.mean[place] = cells.sum(2).sum(3)
    atlas.largest[place] = cells.amax(2).amax(3)


def divide_cell_sums(call: Call, atlas: Atlas) -> None:
    """Turn the sums of all cells into means over the query-key pairs that each cell holds."""
    _, _, queries, keys = call.sizes
    if queries <= atlas.rows and keys <= atlas.columns:  # one cell: a short call should be quick
        atlas.mean.div_(queries * keys)
        return
    # A tensor made while torch follows operations must not be cached: it may have no numbers.
    count_pairs = _pairs_per_cell if has_plain_memory(atlas.mean) else _pairs_per_cell.__wrapped__
    atlas.mean.div_(count_pairs(queries, atlas.rows, keys, atlas.columns).to(atlas.mean))


@lru_cache(maxsize=8)
def _pairs_per_cell(
    queries: int, high: int, keys: int, wide: int
) -> Int[Tensor, "cell_row cell_column"]:
    """How many pairs each cell holds; cached, because all layers of a model have the same sizes."""
    return cell_counts(queries, high)[:, None] * cell_counts(keys, wide)


def mark_undefined_rows(observation: Observation) -> None:
    """Make every number of a row whose logsumexp is NaN NaN too, and its keys -1.

    The softmax of a row with a score of NaN or plus infinity is undefined. Where a strip holds all
    keys, arithmetic makes its numbers NaN; but many strips hold only the keys that their rows can
    reach, and such a row has no weight that is known, not even zero.
    """
    undefined, statistics, top = observation.lse.isnan(), observation.statistics, observation.top
    if observation.context is not None:
        observation.context.masked_fill_(undefined[..., None], torch.nan)
    for name in _STATISTIC_NAMES if statistics else ():
        fill = -1 if name == "largest_key" else torch.nan
        getattr(statistics, name).masked_fill_(undefined, fill)
    if top:
        top.weights.masked_fill_(undefined[..., None], torch.nan)
        top.keys.masked_fill_(undefined[..., None], -1)
    if observation.atlas:
        atlas, queries = observation.atlas, undefined.shape[2]
        cells = F.pad(undefined, (0, -queries % atlas.rows)).unflatten(2, (-1, atlas.rows)).any(3)
        for side in (atlas.mean, atlas.largest):
            side.masked_fill_(cells[..., None], torch.nan)


def write_statistics(call: Call, strip: Strip, softmax: StripSoftmax, out: Statistics) -> None:
    """Write every statistic of the strip's rows; the shifted scores are overwritten."""
    weights, columns, place = softmax.weights, strip.band.columns, strip.row_index
    softmax.shifted.clamp_(min=LOWEST)  # a hidden key would be 0 x -inf
    # Entropy is -sum w log w with log w = shifted - log total, so one product with the shifted
    # scores does: -sum w shifted + log total.
    mean_shifted = torch.linalg.vecdot(weights, softmax.shifted)
    if softmax.sink is not None:
        share = softmax.sink.exp() / softmax.total
        out.on_sink[place] = share[..., 0]
        mean_shifted += (share * softmax.sink.clamp(min=LOWEST))[..., 0]
    else:
        out.on_sink[place] = softmax.total[..., 0] * 0  # NaN in a row without a softmax
    log_total = softmax.total[..., 0].log()
    out.entropy[place] = (log_total - mean_shifted).masked_fill_(softmax.total[..., 0] == 0, 0)
    if not columns:
        return
    largest, key = _largest_with_key(weights)
    out.largest[place] = largest
    key = (key + columns.start).masked_fill_(~(largest > 0), -1)
    out.largest_key[place] = key.to(torch.int32)
    if columns.start == 0:
        out.on_first[place] = weights[..., 0]
    for ahead, target in ((-1, out.on_previous), (0, out.on_self), (1, out.on_next)):
        target[place] = _diagonal(call, strip, weights, ahead)
    _write_sides(call, strip, weights, out)


def _largest_with_key(
    weights: Float[Tensor, "head query key"],
) -> tuple[Float[Tensor, "head query"], Int[Tensor, "head query"]]:
    """The largest weight of each row and its key.

    Torch computes a maximum ten times faster than its index, so the index is searched only within
    the run of 128 keys that holds the maximum.
    """
    run = 128
    if weights.shape[2] % run:
        weights = F.pad(weights, (0, -weights.shape[2] % run))
    runs = weights.unflatten(2, (-1, run))
    best = runs.amax(3).argmax(2)
    within = runs.gather(2, best[..., None, None].expand(-1, -1, 1, run))[:, :, 0]
    largest, key = within.max(2)
    return largest, best * run + key


def _diagonal(
    call: Call, strip: Strip, weights: Float[Tensor, "head query key"], ahead: int
) -> Float[Tensor, "head query"]:
    """The weight that each query has for the key `ahead` of its own position."""
    rows, columns = strip.band.rows, strip.band.columns
    key = torch.arange(rows.start, rows.stop, device=weights.device)
    key = key + call.scoring.offset + ahead - columns.start
    inside = (key >= 0) & (key < len(columns))
    index = key.clamp(0, len(columns) - 1)[None, :, None].expand(weights.shape[0], -1, 1)
    return weights.gather(2, index)[..., 0] * inside


def _write_sides(
    call: Call, strip: Strip, weights: Float[Tensor, "head query key"], out: Statistics
) -> None:
    """Write the mean distance and the mass on the future and on padding.

    Columns before the position of the first row, or after that of the last, lie on the same side of
    every row, so one product with five vectors does; only the square in between needs every pair.
    """
    rows, columns, place = strip.band.rows, strip.band.columns, strip.row_index
    oldest, newest = call.scoring.offset + rows.start, call.scoring.offset + rows.stop - 1
    keys = torch.arange(columns.start, columns.stop, device=weights.device)
    past, future = keys < oldest, keys > newest
    padded = torch.zeros_like(past)
    if call.padded is not None:
        padded = call.padded[strip.example, columns.start : columns.stop].to(padded)
    vectors = [(oldest - keys) * past, past, (keys - newest) * future, future, padded]
    sums = weights @ torch.stack([vector.to(weights) for vector in vectors], 1)
    behind, before, ahead, after, out.on_padding[place] = sums.unbind(-1)
    own = torch.arange(oldest, newest + 1, device=weights.device)
    inner = min(max(oldest - columns.start, 0), len(columns))
    outer = min(max(newest + 1 - columns.start, inner), len(columns))
    square = weights[..., inner:outer]
    gap = (keys[inner:outer] - own[:, None]).to(weights)
    out.on_future[place] = after + (square * (gap > 0)).sum(-1)
    out.distance[place] = (
        (behind + before * (own - oldest))
        + (ahead + after * (newest - own))
        + (square * gap.abs()).sum(-1)
    )
