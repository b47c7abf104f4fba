"""Sliding-window attention whose time and memory grow linearly with the length.

The queries are cut into blocks of 32. The keys that one block can reach are a strip of
left + 32 + right keys, and the strips of all blocks are one overlapping view of the keys. A single
call of the fused kernel with one small mask then computes all blocks without copying keys (the
sliding chunks of Beltagy et al. 2020, section 3.1). With window(4, 0), for example, the block of
queries 4 .. 35 reads the strip of keys 0 .. 35, the next one, 36 .. 67, reads keys 32 .. 67. The
queries at either end, whose strip would be cut off, are computed with `attend_slices`.
"""

import torch
from torch import Tensor

from regard.attention.sliced import Context, Kernel, Key, Query, Value, attend_slices
from regard.attention.terms import Terms
from regard.masks import Area, Window

_ROWS = 32  # queries in a block


def attend_band(query: Query, key: Key, value: Value, terms: Terms, kernel: Kernel) -> Context:
    """The context under a window limited on both sides, without any other mask or bias."""
    band, _ = terms.mask.split()
    left, right = band.left or 0, band.right or 0
    queries = query.shape[2]
    # queries first .. last - 1 have whole strips: no key of theirs is before 0 or after the end
    first = min(queries, max(0, left - terms.offset))
    blocks = max(0, min(queries, key.shape[2] - right - terms.offset) - first) // _ROWS
    last = first + blocks * _ROWS
    contexts = attend_slices(query, key, value, terms, kernel, range(0, first, _ROWS))
    if blocks:
        strips = slice(first + terms.offset - left, last + terms.offset + right)
        contexts.append(
            _attend_strips(
                query[:, :, first:last], key[:, :, strips], value[:, :, strips], band, kernel
            )
        )
    contexts += attend_slices(query, key, value, terms, kernel, range(last, queries, _ROWS))
    return torch.cat(contexts, dim=2)


def _attend_strips(query: Query, key: Key, value: Value, band: Window, kernel: Kernel) -> Context:
    """The context of blocks that all have a whole strip of keys, by one call of the kernel."""
    batch, heads, queries, _ = query.shape
    key_heads, width = key.shape[1], _ROWS + key.shape[2] - queries
    groups = heads // key_heads
    # the query heads of a group become rows of one block: (batch * key_head, block, group * row)
    query = query.reshape(batch * key_heads, groups, -1, _ROWS, query.shape[-1])
    query = query.transpose(1, 2).flatten(2, 3)
    area = Area(range(_ROWS), range(width), band.left or 0, query.device)
    mask = band.cut(area).repeat(1, 1, groups, 1)
    context = kernel(query, _strips(key, width), _strips(value, width), mask)
    dim = context.shape[-1]
    context = context.view(len(context), -1, groups, _ROWS, dim).transpose(1, 2)
    return context.reshape(batch, heads, queries, dim)


def _strips(keys: Tensor, width: int) -> Tensor:
    """Overlapping views of `width` keys, _ROWS apart: (batch * key_head, block, key, dim)."""
    return keys.flatten(0, 1).unfold(1, width, _ROWS).mT
