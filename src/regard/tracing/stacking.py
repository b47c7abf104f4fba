"""Decoding step by step as one call: each new row goes under the rows before it."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels import Observation, Statistics, Top
from regard.masks import Area, Bias, Mask, causal, everything, tensor_bias
from regard.tracing.describe import as_description
from regard.tracing.seen import Seen


def continues(call: Seen, earlier: Seen) -> bool:
    """Whether the call goes on where the earlier one ended.

    In self-attention its keys are those of before, or the last of them, and one for each new
    query; in cross-attention they are the same keys again.
    """
    alike = (call.queries, call.keys) == (earlier.queries, earlier.keys)
    batch, heads, queries, keys = call.sizes
    if not alike or (batch, heads) != earlier.sizes[:2]:
        return False
    if (call.weights is None) != (earlier.weights is None):
        return False
    if not call.looks_at_itself:
        return keys == earlier.span and queries <= earlier.sizes[2]
    if call.weights is not None:
        return keys == earlier.span + queries
    return keys > queries and torch.equal(call.key[:, :, -queries - 1], earlier.key[:, :, -1])


def trimmed(call: Seen) -> Seen:
    """A call that continues another, with the keys that are new: each is kept once."""
    if call.weights is not None:
        return call
    new = call.sizes[2] if call.looks_at_itself else 0
    return replace(call, key=call.key[:, :, call.key.shape[2] - new :].clone())


def stacked(calls: list[Seen]) -> Seen:
    """Calls that continue one another as one call with all their rows and keys."""
    last = calls[-1]
    if len(calls) == 1:
        return last
    ends = _ends(calls)
    total = ends[-1]
    mask = _mask(calls, ends)
    if last.weights is not None:
        rows = [_placed(each.weights, end, total) for each, end in zip(calls, ends, strict=True)]
        return replace(last, weights=torch.cat(rows, dim=2), mask=mask, span=total)
    assert last.scoring is not None
    return replace(
        last,
        query=torch.cat([each.query for each in calls], dim=2),
        key=torch.cat([each.key for each in calls], dim=2),
        mask=mask,
        scoring=replace(last.scoring, mask=mask, bias=_bias(calls, ends), offset=0),
        observed=_rows([each.observed for each in calls if each.observed is not None]),
        span=total,
    )


def _ends(calls: list[Seen]) -> list[int]:
    """How many keys there were in all when each call was made."""
    ends = [calls[0].span]
    for call in calls[1:]:
        ends.append(ends[-1] + (call.sizes[2] if call.looks_at_itself else 0))
    return ends


def _mask(calls: list[Seen], ends: list[int]) -> Mask | None:
    itself = calls[0].looks_at_itself
    plain = all(call.mask is None or call.mask == causal() for call in calls)
    if plain and all(call.span == end for call, end in zip(calls, ends, strict=True)):
        return causal() if itself else None  # a row saw all keys so far and none beyond
    rows = []
    for call, end in zip(calls, ends, strict=True):
        batch, _, queries, _ = call.sizes
        offset = call.span - queries if itself else 0
        seen = (call.mask or everything()).cut(Area(range(queries), range(call.span), offset))
        seen = seen.expand(batch, -1, queries, call.span)
        rows.append(_placed(seen, end, ends[-1]))
    heads = max(each.shape[1] for each in rows)
    return as_description(torch.cat([each.expand(-1, heads, -1, -1) for each in rows], dim=2))


def _bias(calls: list[Seen], ends: list[int]) -> Bias | None:
    terms = [None if call.scoring is None else call.scoring.bias for call in calls]
    if not any(terms):
        return None
    rows = []
    for call, bias, end in zip(calls, terms, ends, strict=True):
        batch, heads, queries, _ = call.sizes
        area = Area(range(queries), range(call.span), call.span - queries)
        added = call.query.new_zeros(1, 1, queries, call.span) if bias is None else bias.cut(area)
        rows.append(_placed(added.expand(batch, heads, queries, call.span), end, ends[-1]))
    return tensor_bias(torch.cat(rows, dim=2))


def _placed(rows: Tensor | None, end: int, total: int) -> Tensor:
    """Rows over some keys as rows over all: theirs end at `end`."""
    assert rows is not None
    return F.pad(rows, (end - rows.shape[3], total - end))


def _rows(observed: list[Observation]) -> Observation:
    """The rows of all; atlases of pieces do not join, a window gives one when asked for."""
    last = observed[-1]
    return replace(
        last,
        lse=torch.cat([each.lse for each in observed], dim=2),
        statistics=None
        if last.statistics is None
        else Statistics(*_joined([each.statistics for each in observed])),
        top=None if last.top is None else Top(*_joined([each.top for each in observed])),
        atlas=None,
    )


def _joined(parts: list[Statistics | None] | list[Top | None]) -> list[Tensor]:
    columns = zip(*(vars(each).values() for each in parts), strict=True)
    return [torch.cat(rows, dim=2) for rows in columns]
