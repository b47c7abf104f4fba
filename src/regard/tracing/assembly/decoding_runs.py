"""Calls kept as runs: each step of decoding goes under the steps that it continues."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.masks import Area
from regard.tracing.mask_reading.dense import count_written_keys, describe_dense_mask
from regard.tracing.recording.record import CallRecord


class DecodingRuns:
    """The calls of a block, site by site: `runs` are lists of calls that continue one another."""

    def __init__(self) -> None:
        self.runs: list[list[CallRecord]] = []
        self._open: dict[tuple[str, str | None, str | None], list[CallRecord]] = {}
        # whether the last self-attention of a stream went on: then what it looks at does too
        self._went_on: dict[str | None, bool] = {}

    def keep(self, call: CallRecord) -> None:
        """Put the call under those that it continues, or begin a run with it."""
        call = self._known(cut(call))
        run = self._open.get(call.look)
        more = None if run is None else self._continuation(call, run)
        if run is None or more is None:
            self._open[call.look] = run = []
            self.runs.append(run)
        run.append(more or replace(_settled(call), end=call.span))
        if call.looks_at_itself:
            self._went_on[call.queries] = more is not None

    def _known(self, call: CallRecord) -> CallRecord:
        """The call as one that looks at what it looked at before, if it seemed to look at itself.

        The state of a recurrent decoder comes from what it looks at, as much as from what it has
        written: but keys that stay the same are not its own.
        """
        if call.queries not in (None, call.keys) or call.sizes[2] != 1:
            return call
        for queries in (None, call.keys):
            look = call.site, queries, call.keys
            run = self._open.get(look)
            if run is None or run[0].span != call.span or not _same_keys(call, run[0], whole=True):
                continue
            run[:] = [replace(each, queries=None) for each in run]
            self._open[call.site, None, call.keys] = self._open.pop(look)
            return replace(call, queries=None)
        return call

    def _continuation(self, call: CallRecord, run: list[CallRecord]) -> CallRecord | None:
        """The call as it continues the run, with the keys that are new; None if it does not."""
        earlier = run[-1]
        if call.sizes[1] != earlier.sizes[1] or call.parts != earlier.parts:
            return None
        if (call.weights is None) != (earlier.weights is None):
            return None
        if call.keys is None and run[0].looks_at_itself:
            return _found_again(call, run)
        if call.looks_at_itself:
            return with_more_keys(call, earlier)
        fits = call.span == run[0].span and call.sizes[2] <= earlier.sizes[2]
        went_on = self._went_on.get(call.queries)
        if not fits or not (_same_keys(call, run[0]) if went_on is None else went_on):
            return None
        return replace(_settled(call, 0), end=call.span)


def _found_again(call: CallRecord, run: list[CallRecord]) -> CallRecord | None:
    """A call whose keys came from nobody knows where, if they are those of the run before."""
    if not call.key.shape[2]:
        return None
    name = call.queries or "tokens"
    more = with_more_keys(replace(call, queries=name, keys=name), run[-1])
    if more is not None:
        run[0] = replace(run[0], queries=name, keys=name)
    return more


def with_more_keys(call: CallRecord, earlier: CallRecord) -> CallRecord | None:
    """Self-attention whose keys are those of before, or the last of them, and one for each query.

    Between two steps the rows of the batch may move, as beams do, or leave: then the call notes
    which rows of before have the key that comes before its new ones.
    """
    _, _, queries, keys = call.sizes
    end = earlier.end + queries
    if not queries < keys <= end:
        return None
    if not (call.key.shape[2] and earlier.key.shape[2]):  # attention by hand without its values
        known = call.sizes[0] % earlier.sizes[0] == 0  # else nothing tells which rows have left
        return replace(_settled(call, queries), end=end) if known else None
    before, last = call.key[:, :, keys - queries - 1], earlier.key[:, :, -1]
    matches = None
    if not torch.equal(before, last):
        matches = next((each for each in _matches(before, last) if bool(each.any(1).all())), None)
        if matches is None:
            return None
    return replace(_settled(call, queries), end=end, matches=matches)


def _matches(one: Tensor, other: Tensor) -> Iterator[Bool[Tensor, "batch earlier"]]:
    """Which rows may be which: those that are the same, or else, made anew from a shorter form."""
    if one.shape[1:] == other.shape[1:]:
        yield same_rows(one, other)
        yield near_rows(one, other)


def same_rows(one: Tensor, other: Tensor) -> Bool[Tensor, "batch earlier"]:
    """Which rows of one tensor equal which rows of another, bit for bit."""
    bits = torch.cat([one, other]).flatten(1).contiguous().view(torch.uint8)
    number: Tensor = torch.unique(bits, dim=0, return_inverse=True)[1]
    return number[: len(one), None] == number[None, len(one) :]


def near_rows(one: Tensor, other: Tensor) -> Bool[Tensor, "batch earlier"]:
    """Which rows of one tensor are those of another but for rounding."""
    exact = "donot_use_mm_for_euclid_dist"
    one, other, precision = one.flatten(1), other.flatten(1), torch.finfo(one.dtype).eps
    between = torch.cdist(one.float(), other.float(), compute_mode=exact)
    near: Tensor = between <= max(1e-4, 4 * precision) * one.float().norm(dim=1, keepdim=True)
    return near


def comparable(call: CallRecord, values: Tensor, axis: int) -> CallRecord:
    """Attention by hand with its values for keys, by which rows that move are known again.

    The values' keys are on the axis; before it comes the batch, perhaps with heads, apart or not.
    """
    batch, _, _, keys = call.sizes
    rows = values.detach().movedim(axis, -2)
    if rows.dim() not in (3, 4) or rows.shape[-2] != keys or len(rows) % batch:
        return call
    if rows.dim() == 3:
        rows = rows.unflatten(0, (batch, -1))
    return replace(call, key=rows) if len(rows) == batch else call


def cut(call: CallRecord) -> CallRecord:
    """Attention by hand without the keys that a static cache has not written yet."""
    _, _, queries, keys = call.sizes
    if call.weights is None or call.mask is None or not call.looks_at_itself or keys <= queries:
        return call
    device = call.weights.device
    seen = call.mask.cut(Area(range(queries), range(keys), keys - queries, device))
    written = count_written_keys(seen.expand(-1, -1, queries, keys))
    if written == keys:
        return call
    seen = seen.expand(len(call.weights), -1, queries, keys)[..., :written]
    weights = call.weights[..., :written].clone()  # a view would hold what was not written
    mask, kept, key = describe_dense_mask(seen), call.kept.cut(written), call.key[:, :, :written]
    return replace(call, key=key, weights=weights, mask=mask, span=written, kept=kept)


def _same_keys(call: CallRecord, first: CallRecord, *, whole: bool = False) -> bool:
    """Whether a decoder without self-attention looks at the keys of before again."""
    if not (call.key.shape[2] and first.key.shape[2]):
        return not whole and call.sizes[0] == first.sizes[0]
    start = -first.key.shape[2] if whole else -1  # of attention by hand only the last is kept
    one, other = call.key[:, :, start:], first.key[:, :, start:]
    # rows may have moved or left since, and each of them may have become several beams
    return one.shape[1:] == other.shape[1:] and bool(near_rows(one, other).any(1).all())


def _settled(call: CallRecord, new: int | None = None) -> CallRecord:
    """The call with only its new keys, and nothing that the model may yet write over.

    Of attention by hand only the last: it tells which row the next call goes on with.
    """
    kept = call.kept
    if new is not None:
        kept = kept.trimmed(new)
    elif kept.value is not None:
        kept = replace(kept, value=_lasting(kept.value))
    if call.weights is not None:
        return replace(call, key=call.key[:, :, -1:].clone(), kept=kept)
    old = call.key.shape[2] - (new or 0)
    key = _lasting(call.key) if new is None else call.key[:, :, old:].clone()
    return replace(call, query=_lasting(call.query), key=key, kept=kept)


def _lasting(side: Tensor) -> Tensor:
    """The tensor, or a copy of it where it may be a buffer that is written in place.

    A tensor made while inference mode is on does not tell whether it was written.
    """
    return side.clone() if side.is_inference() or side._version > 0 else side
