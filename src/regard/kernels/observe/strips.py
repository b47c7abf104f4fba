"""Scores of a call in strips: some rows of some heads, over the keys that these rows can see.

This is the only place where the portable code turns queries and keys into scores. The forward pass
(`portable`), recomputing (`portable`) and the backward pass (`gradient`) walk over the same strips.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.observe.call import Call
from regard.masks import Area

# Scores held at once, so that a strip and its copies stay in the cache of a processor core.
STRIP_SCORES = 1 << 20
NEVER = float("-inf")
LARGE_CAP = 2.0**50  # of smaller softcaps, the share of every score that matters is a normal number


@dataclass(frozen=True, eq=False)
class Band:
    """Some rows of a call, the columns that they can see, and the dense mask and bias of these."""

    rows: range
    columns: range
    seen: Bool[Tensor, "#batch #head #query #key"] | None
    added: Float[Tensor, "#batch #head #query #key"] | None


@dataclass(frozen=True, eq=False)
class Strip:
    """The part of a band that belongs to some key heads of one example."""

    band: Band
    example: int
    key_heads: range
    heads: range

    def of(self, term: Tensor) -> Float[Tensor, "..."] | Bool[Tensor, "..."]:
        """This strip's part of a mask or bias with the axes batch, head, query, key."""
        own = term[self.example if term.shape[0] > 1 else 0]
        return own[self.heads.start : self.heads.stop] if own.shape[0] > 1 else own

    @property
    def row_index(self) -> tuple[int, slice, slice]:
        """The index of its rows in a tensor with the axes batch, head, query."""
        rows = self.band.rows
        return self.example, slice(self.heads.start, self.heads.stop), slice(rows.start, rows.stop)

    @property
    def key_index(self) -> tuple[int, slice, slice]:
        """The index of its columns in a tensor with the axes batch, key head, key."""
        columns = self.band.columns
        heads = slice(self.key_heads.start, self.key_heads.stop)
        return self.example, heads, slice(columns.start, columns.stop)


def strips(call: Call, *, cell: tuple[int, int] = (1, 1)) -> Iterator[Strip]:
    """Strips that cover the call; rows and first columns are multiples of the sides of a cell."""
    batch, heads, queries, keys = call.sizes
    group, tall = call.group, max(16, cell[0])
    height = max(tall, STRIP_SCORES // max(1, keys * group) // tall * tall)
    for start in range(0, queries, height):
        rows = range(start, min(queries, start + height))
        band = band_of(call, rows, reachable(call, rows, cell[1]))
        scores = max(1, len(rows) * len(band.columns) * group)
        wide = max(1, STRIP_SCORES // scores)
        for example in range(batch):
            for first in range(0, heads // group, wide):
                own = range(first, min(heads // group, first + wide))
                yield Strip(band, example, own, range(own.start * group, own.stop * group))


def products(call: Call, strip: Strip) -> Float[Tensor, "head query key"]:
    """Scaled and capped dot products, before any bias or mask."""
    query = call.query[strip.row_index].to(call.accumulator) * call.scale
    key = call.key[strip.key_index].to(call.accumulator)
    # Query heads that share a key head become rows of one product.
    heads, queries, dim = query.shape
    grouped = query.reshape(key.shape[0], heads // key.shape[0] * queries, dim)
    scores = torch.bmm(grouped, key.mT).view(heads, queries, key.shape[1])
    return cap_scores(scores, call.scoring.softcap)


def cap_scores(scores: Float[Tensor, "*axes"], cap: float | None) -> Float[Tensor, "*axes"]:
    """The scores s as c tanh(s / c); as they are if there is no cap."""
    if cap is None:
        return scores
    capped = (scores / cap).tanh_() * cap
    if cap < LARGE_CAP:
        return capped
    # s / c may be too small for a floating-point number; there the cap changes nothing.
    return torch.where(scores.abs() < cap * torch.finfo(scores.dtype).eps, scores, capped)


def apply_bias_and_mask(call: Call, strip: Strip, scores: Float[Tensor, "head query key"]) -> None:
    """Add the bias to the scores and set those of hidden keys to minus infinity, in place."""
    if strip.band.added is not None:
        scores += strip.of(strip.band.added)
    if strip.band.seen is not None:
        scores.masked_fill_(~strip.of(strip.band.seen), NEVER)
    window, _ = call.split
    rows, columns = strip.band.rows, strip.band.columns
    # Only columns at the edges of the window need a mask; all rows see those in between.
    for edge in _window_edges(call, rows, columns):
        seen = window.cut(Area(rows, edge, call.scoring.offset, scores.device))[0]
        part = scores[..., edge.start - columns.start : edge.stop - columns.start]
        part.masked_fill_(~seen, NEVER)


def recompute_weights(
    call: Call, strip: Strip, lse: Float[Tensor, "batch every_head every_query"]
) -> Float[Tensor, "head query key"]:
    """The strip's weights, from the logsumexp that an earlier pass returned."""
    scores = products(call, strip)
    apply_bias_and_mask(call, strip, scores)
    return weights_from_lse(scores, lse[strip.row_index])


def weights_from_lse(
    scores: Float[Tensor, "head query key"], lse: Float[Tensor, "head query"]
) -> Float[Tensor, "head query key"]:
    """exp(score - logsumexp), in place; zeros for a row that sees nothing."""
    return scores.sub_(lse.masked_fill(lse == NEVER, -NEVER)[..., None]).exp_()


def reachable(call: Call, rows: range, wide: int) -> range:
    """The columns that some of the rows can see, the first rounded down to a multiple of `wide`."""
    window, _ = call.split
    reach = window.reach(Area(rows, range(call.sizes[3]), call.scoring.offset))
    return range(reach.start // wide * wide, reach.stop) if reach else range(0)


def band_of(call: Call, rows: range, columns: range) -> Band:
    """These rows and columns with their dense mask and bias."""
    _, rest = call.split
    scoring, device = call.scoring, call.query.device
    area = Area(rows, columns, scoring.offset, device)
    seen = None if rest is None else rest.cut(area)
    added = None if scoring.bias is None else scoring.bias.cut(area).detach().to(call.accumulator)
    return Band(rows, columns, seen, added)


def _window_edges(call: Call, rows: range, columns: range) -> Iterator[range]:
    """The columns that the window shows to some of the rows but not to all of them."""
    window, _ = call.split
    oldest, newest = call.scoring.offset + rows.start, call.scoring.offset + rows.stop - 1
    left = right = range(0)
    if window.left is not None:
        left = range(columns.start, min(columns.stop, max(columns.start, newest - window.left)))
    if window.right is not None:
        right = range(max(columns.start, oldest + window.right + 1), columns.stop)
    if left and right and left.stop >= right.start:
        left, right = columns, range(0)
    yield from (edge for edge in (left, right) if edge)
