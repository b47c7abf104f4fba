"""Groups records into runs while a model runs: each decoding step joins the steps it continues."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.kernels.observe.full_weights import weigh
from regard.masks import Area
from regard.tracing.mask_reading.dense import count_written_keys, describe_dense_mask
from regard.tracing.recording.record import CallRecord, RunKey


class CachedKeys(NamedTuple):
    """Keys of which all but the newest are those of a run: its stream, and how many come first."""

    stream: str
    earlier_keys: int


class DecodingRuns:
    """The calls of a block: `runs` are lists of records that continue one another.

    A layer that is looped, with a cache for each turn, has several open runs at its site. They
    began in the same call of the model, and continue in the order in which they began.
    """

    def __init__(self) -> None:
        self.runs: list[list[CallRecord]] = []
        # by site, the runs that may go on, the one that did so longest ago first
        self._open: dict[str, list[list[CallRecord]]] = {}
        self._model_call = 0  # number of the running call of the model; 0 if none was noted
        self._begun: dict[RunKey, int] = {}  # the call of the model in which a run began last
        # by stream, whether its last self-attention continued a run; then cross-attention does too
        self._continued: dict[str | None, bool] = {}
        # streams that were found to continue another one, by their own names
        self._continued_streams: dict[str | None, str] = {}

    def begin_model_call(self) -> None:
        """Note that the model is called, so that what follows is not a loop of one call."""
        self._model_call += 1

    def add(self, record: CallRecord) -> None:
        """Append a record to the run that it continues, or begin a run with it."""
        record = self._reclassify(drop_unwritten_keys(self._join_streams(record)))
        runs = self._open.setdefault(record.site, [])
        continuation = None
        for run in self._runs_like(record):
            continuation = self._continuation(record, run)
            if continuation is not None:
                run.append(continuation)
                if len(runs) > 1:
                    runs.sort(key=lambda other: other is run)  # it is the newest now
                break
        else:
            self._begin_run(record)
        if record.is_self_attention:
            self._continued[record.query_stream] = continuation is not None

    def _runs_like(self, record: CallRecord) -> list[list[CallRecord]]:
        """The open runs of a record's site and streams."""
        runs = self._open.get(record.site, ())
        return [run for run in runs if run[-1].run_key == record.run_key]

    def _begin_run(self, record: CallRecord) -> None:
        """Begin a run; those of earlier calls of the model go on no longer."""
        key, runs = record.run_key, self._open[record.site]
        if not self._model_call or self._begun.get(key) != self._model_call:
            runs[:] = [run for run in runs if run[-1].run_key != key]
        self._begun[key] = self._model_call
        run = [replace(_make_lasting(record), keys_seen=record.key_count)]
        runs.append(run)
        self.runs.append(run)

    def find_cached_keys(
        self, site: str, streams: tuple[str | None, str | None], key: Tensor, queries: int
    ) -> CachedKeys | None:
        """The run of self-attention whose last key comes just before the newest of these keys.

        It tells that queries attend to their own stream, where the data flow names two: a prompt of
        vectors goes on with embedded ids, a picture with text. None if there is no such run.
        """
        for run in self._open.get(site, ()):
            last = run[-1]
            if not run[0].is_self_attention or not (before := _keys_before(last, key, queries)):
                continue
            stream = last.query_stream or last.key_stream or streams[0] or streams[1] or "tokens"
            if None in (last.query_stream, last.key_stream):
                run[:] = [replace(call, query_stream=stream, key_stream=stream) for call in run]
            if streams[0] is not None:
                self._continued_streams[streams[0]] = stream
            return CachedKeys(stream, before)
        return None

    def _join_streams(self, record: CallRecord) -> CallRecord:
        """The record with the streams of the run that it continues, whatever its own are called."""
        streams, queries = (record.query_stream, record.key_stream), record.sizes[2]
        if streams[0] == streams[1] and streams[0] is not None:
            return record
        if queries < record.key.shape[2]:
            cached = self.find_cached_keys(record.site, streams, record.key, queries)
            if cached is not None:
                return replace(record, query_stream=cached.stream, key_stream=cached.stream)
        # the queries of a decoder whose self-attention was found to continue another stream
        stream = self._continued_streams.get(streams[0])
        joined = replace(record, query_stream=stream)
        return joined if stream is not None and self._runs_like(joined) else record

    def _reclassify(self, record: CallRecord) -> CallRecord:
        """The call as cross-attention if it seemed self-attention, but its keys stay the same.

        The state of a recurrent decoder comes from the source that it attends to as much as from
        what it has written, so the data flow may name the source's stream for the queries.
        """
        if record.query_stream not in (None, record.key_stream) or record.sizes[2] != 1:
            return record
        for run in self._open.get(record.site, ()):
            if run[-1].key_stream != record.key_stream:
                continue
            if run[-1].query_stream not in (None, record.key_stream):
                continue
            if run[0].key_count != record.key_count:
                continue
            if not _has_same_keys(record, run[0], whole=True):
                continue
            run[:] = [replace(earlier, query_stream=None) for earlier in run]
            return replace(record, query_stream=None)
        return record

    def _continuation(self, record: CallRecord, run: list[CallRecord]) -> CallRecord | None:
        """The record as it continues the run, with its new keys only; None if it does not."""
        earlier = run[-1]
        if record.sizes[1] != earlier.sizes[1] or record.windows != earlier.windows:
            return None
        if record.weights is None and earlier.weights is not None and record.scoring is not None:
            # a prompt with rows that see nothing is kept by its weights, later steps by scores
            weights = weigh(record.query, record.key, record.scoring)
            record = replace(record, weights=weights, scoring=None, observation=None)
        if (record.weights is None) != (earlier.weights is None):
            return None
        if record.is_self_attention:
            return continue_with_more_keys(record, earlier)
        same_sizes = record.key_count == run[0].key_count and record.sizes[2] <= earlier.sizes[2]
        continued = self._continued.get(record.query_stream)
        if continued is None and same_sizes:
            continued = _has_same_keys(record, run[0])
        if not same_sizes or not continued:
            return None
        return replace(_make_lasting(record, 0), keys_seen=record.key_count)


def _keys_before(earlier: CallRecord, key: Tensor, queries: int) -> int:
    """How many keys come before the newest, if they end with the last key of an earlier call.

    A static cache has room after the newest keys, a sliding one has dropped first keys. 0 if the
    keys are others.
    """
    keys, seen = key.shape[2], earlier.keys_seen
    before = seen if keys >= seen + queries else keys - queries
    if before <= 0 or not earlier.key.shape[2]:
        return 0
    last, known = key[:, :, before - 1], earlier.key[:, :, -1]
    if torch.equal(last, known):
        return before
    matches = any(bool(match.any(1).all()) for match in _row_matches(last, known))
    return before if matches else 0


def continue_with_more_keys(record: CallRecord, earlier: CallRecord) -> CallRecord | None:
    """Self-attention with a cache: the record with its new keys only, None if it has no cache.

    The key before the new ones must be the last key of the earlier call, in the same row of the
    batch or in another one where rows have moved. A sliding cache may have dropped first keys.
    """
    _, _, queries, keys = record.sizes
    keys_seen = earlier.keys_seen + queries
    if not queries < keys <= keys_seen:
        return None
    if not (record.key.shape[2] and earlier.key.shape[2]):  # a manual call without its values
        # if rows have left the batch, nothing tells which
        known = record.sizes[0] % earlier.sizes[0] == 0
        return replace(_make_lasting(record, queries), keys_seen=keys_seen) if known else None
    before, last = record.key[:, :, keys - queries - 1], earlier.key[:, :, -1]
    matches = None
    if not torch.equal(before, last):
        candidates = _row_matches(before, last)
        matches = next((match for match in candidates if bool(match.any(1).all())), None)
        if matches is None:
            return None
    return replace(_make_lasting(record, queries), keys_seen=keys_seen, row_matches=matches)


def _row_matches(one: Tensor, other: Tensor) -> Iterator[Bool[Tensor, "batch earlier"]]:
    """Which rows may be which: those that are equal, else those that are equal up to rounding.

    A cache that is compressed computes its keys anew at each step.
    """
    if one.shape[1:] == other.shape[1:]:
        yield equal_rows(one, other)
        yield near_rows(one, other)


def equal_rows(one: Tensor, other: Tensor) -> Bool[Tensor, "batch earlier"]:
    """Which rows of one tensor equal which rows of another, bit for bit."""
    bits = torch.cat([one, other]).flatten(1).contiguous().view(torch.uint8)
    number: Tensor = torch.unique(bits, dim=0, return_inverse=True)[1]
    return number[: len(one), None] == number[None, len(one) :]


def near_rows(one: Tensor, other: Tensor) -> Bool[Tensor, "batch earlier"]:
    """Which rows of one tensor equal which rows of another up to rounding."""
    exact = "donot_use_mm_for_euclid_dist"
    one, other, precision = one.flatten(1), other.flatten(1), torch.finfo(one.dtype).eps
    distance = torch.cdist(one.float(), other.float(), compute_mode=exact)
    near: Tensor = distance <= max(1e-4, 4 * precision) * one.float().norm(dim=1, keepdim=True)
    return near


def drop_unwritten_keys(record: CallRecord) -> CallRecord:
    """A manual call without the keys that a static cache has not written yet."""
    _, _, queries, keys = record.sizes
    if record.weights is None or record.mask is None:
        return record
    if not record.is_self_attention or keys <= queries:
        return record
    device = record.weights.device
    visible = record.mask.cut(Area(range(queries), range(keys), keys - queries, device))
    written = count_written_keys(visible.expand(-1, -1, queries, keys))
    if written == keys:
        return record
    visible = visible.expand(len(record.weights), -1, queries, keys)[..., :written]
    value = record.value
    return replace(
        record,
        key=record.key[:, :, :written],
        # a copy, because a view would keep the unwritten rest in memory
        weights=record.weights[..., :written].clone(),
        mask=describe_dense_mask(visible),
        key_count=written,
        value=None if value is None else value[:, :, :written].clone(),
    )


def _has_same_keys(record: CallRecord, first: CallRecord, *, whole: bool = False) -> bool:
    """True if a call attends to the keys of an earlier one again, as cross-attention does.

    With `whole` all keys are compared, else the last one: of manual calls no more is kept.
    """
    if not (record.key.shape[2] and first.key.shape[2]):
        return not whole and record.sizes[0] == first.sizes[0]
    start = -first.key.shape[2] if whole else -1
    one, other = record.key[:, :, start:], first.key[:, :, start:]
    # rows may have moved or left since, and each of them may have become several beams
    return one.shape[1:] == other.shape[1:] and bool(near_rows(one, other).any(1).all())


def _make_lasting(record: CallRecord, new: int | None = None) -> CallRecord:
    """The record with only its `new` last keys, and copies of buffers that may be overwritten.

    None keeps all keys. Of a manual call only the last key is kept: it tells which row of the
    batch the next call continues.
    """
    value = record.value
    if value is not None:
        value = _copy_buffer(value) if new is None else _last_keys(value, new)
    if record.weights is not None:
        return replace(record, key=record.key[:, :, -1:].clone(), value=value)
    key = _copy_buffer(record.key) if new is None else _last_keys(record.key, new)
    return replace(record, query=_copy_buffer(record.query), key=key, value=value)


def _last_keys(side: Tensor, count: int) -> Tensor:
    """A copy of the last keys or values."""
    return side[:, :, side.shape[2] - count :].clone()


def _copy_buffer(side: Tensor) -> Tensor:
    """The tensor, or a copy if it was written in place before and may be again.

    A tensor of inference mode has no version counter, so it is always copied.
    """
    return side.clone() if side.is_inference() or side._version > 0 else side
