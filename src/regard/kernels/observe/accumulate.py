"""Room for what an observation keeps, and the noting down of one strip after another."""

from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Atlas, Statistics, Top, cell_side
from regard.kernels.observe.region import cell_counts
from regard.kernels.observe.strips import Strip

# Scores this far below the largest have no weight.
LOWEST = -1e4


@dataclass(frozen=True, eq=False)
class Softmax:
    """The rows of one strip: shifted scores and what is needed to normalise them."""

    shifted: Float[Tensor, "head query key"]
    weights: Float[Tensor, "head query key"]
    shift: Float[Tensor, "head query 1"]
    total: Float[Tensor, "head query 1"]
    sink: Float[Tensor, "head query 1"] | None


_NAMES = tuple(part.name for part in fields(Statistics))


def empty_statistics(call: Call) -> Statistics:
    """Statistics of the call's shape, all zero, for a kernel to fill."""
    # One piece of memory for all: a short call should not pay for eleven.
    rows = call.zeros(len(_NAMES), *call.sizes[:3]).unbind()
    filled = dict(zip(_NAMES, rows, strict=True))
    key = filled["largest_key"]
    key = key.view(torch.int32) if key.dtype == torch.float32 else key.to(torch.int32)
    filled["largest_key"] = key.fill_(-1)
    return Statistics(**filled)


def empty_top(call: Call, top: int) -> Top:
    """Room for the largest weights of each row: none yet."""
    shape, device = (*call.sizes[:3], top), call.query.device
    return Top(call.zeros(*shape), torch.full(shape, -1, dtype=torch.int32, device=device))


def empty_atlas(call: Call, most: int) -> Atlas:
    """An atlas of zeros of at most `most` cells on a side."""
    batch, heads, queries, keys = call.sizes
    rows, columns = cell_side(queries, most), cell_side(keys, most)
    shape = (batch, heads, -(-queries // rows), -(-keys // columns))
    return Atlas(call.zeros(*shape), call.zeros(*shape), rows, columns)


def note_top(strip: Strip, row: Softmax, top: Top) -> None:
    """The largest weights of the strip's rows."""
    most = min(top.weights.shape[3], len(strip.band.columns))
    weights, keys = row.weights.topk(most, dim=-1)
    top.weights[strip.place][..., :most] = weights
    keys = (keys + strip.band.columns.start).masked_fill_(weights == 0, -1)
    top.keys[strip.place][..., :most] = keys.to(torch.int32)


def note_atlas(strip: Strip, row: Softmax, atlas: Atlas) -> None:
    """Put sums where the means will be: `settle_means` divides them when all strips are in."""
    high, wide = atlas.rows, atlas.columns
    heads, queries, keys = row.weights.shape
    down, across = -(-queries // high), -(-keys // wide)
    weights = row.weights
    if queries % high or keys % wide:
        weights = F.pad(weights, (0, across * wide - keys, 0, down * high - queries))
    cells = weights.view(heads, down, high, across, wide)
    top, left = strip.band.rows.start // high, strip.band.columns.start // wide
    place = (*strip.place[:2], slice(top, top + down), slice(left, left + across))
    # Rows first: their reduction runs along memory.
    atlas.mean[place] = cells.sum(2).sum(3)
    atlas.largest[place] = cells.amax(2).amax(3)


def settle_means(call: Call, atlas: Atlas) -> None:
    """Turn sums into means over the pairs that each cell holds."""
    _, _, queries, keys = call.sizes
    if queries <= atlas.rows and keys <= atlas.columns:  # one cell: a short call should be quick
        atlas.mean.div_(queries * keys)
        return
    atlas.mean.div_(_pairs(queries, atlas.rows, keys, atlas.columns).to(atlas.mean))


@lru_cache(maxsize=8)
def _pairs(queries: int, high: int, keys: int, wide: int) -> Int[Tensor, "cell_row cell_column"]:
    """How many pairs each cell holds; the layers of a model ask for the same again."""
    return cell_counts(queries, high)[:, None] * cell_counts(keys, wide)


def note_statistics(call: Call, strip: Strip, row: Softmax, out: Statistics) -> None:
    """Everything but the weights' order; the shifted scores are spent here."""
    weights, columns, place = row.weights, strip.band.columns, strip.place
    if call.scoring.mask is not None or call.scoring.bias is not None:
        row.shifted.clamp_(min=LOWEST)  # a hidden key would be 0 x -inf
    surprise = torch.linalg.vecdot(weights, row.shifted)
    if row.sink is not None:
        share = row.sink.exp() / row.total
        out.on_sink[place] = share[..., 0]
        surprise += (share * row.sink.clamp(min=LOWEST))[..., 0]
    log_total = row.total[..., 0].log()
    out.entropy[place] = (log_total - surprise).masked_fill_(row.total[..., 0] == 0, 0)
    if not columns:
        return
    largest, key = _peak(weights)
    out.largest[place] = largest
    key = (key + columns.start).masked_fill_(largest == 0, -1)
    out.largest_key[place] = key.to(torch.int32)
    if columns.start == 0:
        out.on_first[place] = weights[..., 0]
    for ahead, target in ((-1, out.on_previous), (0, out.on_self), (1, out.on_next)):
        target[place] = _diagonal(call, strip, weights, ahead)
    _note_sides(call, strip, weights, out)


def _peak(
    weights: Float[Tensor, "head query key"],
) -> tuple[Float[Tensor, "head query"], Int[Tensor, "head query"]]:
    """The largest weight of each row and its key.

    Torch finds a maximum ten times faster than its place: so the place is sought in one run only.
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


def _note_sides(
    call: Call, strip: Strip, weights: Float[Tensor, "head query key"], out: Statistics
) -> None:
    """The mean distance, and the mass on the future and on padding.

    Columns before the oldest row or after the newest are on one side of every row, so that one
    product with a few vectors does; only the square between is weighed pair by pair.
    """
    rows, columns, place = strip.band.rows, strip.band.columns, strip.place
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
