"""Groups records into runs while a model runs: each decoding step joins the steps it continues."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.observe.full_weights import weigh
from regard.kernels.observe.one_query import QueryRows
from regard.masks import Area, causal
from regard.tracing.assembly.rereading import replaces_earlier
from regard.tracing.assembly.row_matching import equal_rows, match_rows, near_rows
from regard.tracing.mask_reading.dense import count_written_keys, describe_dense_mask
from regard.tracing.recording.options import WatchOptions
from regard.tracing.recording.pending import PendingObservation
from regard.tracing.recording.record import CallRecord, RunKey

__all__ = ["CachedKeys", "DecodingRuns", "StepsAtSite", "equal_rows", "near_rows"]


class CachedKeys(NamedTuple):
    """Keys of which all but the newest are those of a run: its stream, and how many come first."""

    stream: str
    earlier_keys: int


@dataclass(frozen=True, eq=False)
class StepsAtSite:
    """Decoding steps that go on with a run, and are not records yet (`decoding_steps.py`)."""

    site: str
    stream: str
    run: list[CallRecord]
    rows: QueryRows
    options: WatchOptions

    def record(self) -> CallRecord:
        """One record of all steps."""
        rows = self.rows
        observation = rows.observation()
        return CallRecord(
            self.site,
            self.stream,
            self.stream,
            rows.queries,
            rows.new_keys,
            observation.scoring,
            mask=causal(),
            key_count=rows.keys,
            observed=observation,
            heads=self.options.sites.heads(self.site),
            keys_seen=rows.keys,
            steps=rows.count,
        )


class DecodingRuns:
    """The calls of a block: `runs` are lists of records that continue one another.

    A layer that is looped, with a cache for each turn, has several open runs at its site. They
    began in the same call of the model, and continue in the order in which they began.
    """

    takes_steps = True  # whether decoding steps may be noted in `steps` instead of added

    def __init__(self) -> None:
        self._runs: list[list[CallRecord]] = []
        self.steps: dict[str, StepsAtSite] = {}  # by site, those that are not records yet
        # by site, the runs that may go on, the one that did so longest ago first
        self._open: dict[str, list[list[CallRecord]]] = {}
        self._model_call = 0  # number of the running call of the model; 0 if none was noted
        self._begun: dict[RunKey, int] = {}  # the call of the model in which a run began last
        # by stream, whether its last self-attention continued a run; then cross-attention does too
        self._continued: dict[str | None, bool] = {}
        # streams that were found to continue another one, by their own names
        self._continued_streams: dict[str | None, str] = {}

    @property
    def runs(self) -> list[list[CallRecord]]:
        """All runs, with all their records."""
        for site in list(self.steps):
            self._make_record(site)
        return self._runs

    def _make_record(self, site: str) -> None:
        """Let the steps at a site that are not records yet become one."""
        steps = self.steps.pop(site, None)
        if steps is not None and steps.rows.count:
            steps.run.append(steps.record())

    def simple_run(self, site: str, stream: str) -> list[CallRecord] | None:
        """The only open run at a site, if it is self-attention of one example in this stream."""
        runs = self._open.get(site, ())
        if len(runs) != 1 or runs[0][-1].run_key != (site, stream, stream):
            return None
        is_simple = all(
            record.sizes[0] == record.windows == 1
            and record.shard is None
            and record.head_indices is None
            and record.weights is None
            and record.scoring is not None
            and record.key_count == record.keys_seen
            and record.exact
            for record in runs[0]
        )
        return runs[0] if is_simple else None

    def note_continued(self, stream: str) -> None:
        """Note that self-attention of a stream has continued a run."""
        self._continued[stream] = True

    def begin_model_call(self) -> None:
        """Note that the model is called, so that what follows is not a loop of one call."""
        self._model_call += 1

    def add(self, record: CallRecord) -> None:
        """Append a record to the run that it continues, or begin a run with it."""
        self._make_record(record.site)
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
            if not self._replace_run(record):
                self._begin_run(record)
        if record.is_self_attention:
            self._continued[record.query_stream] = continuation is not None

    def _runs_like(self, record: CallRecord) -> list[list[CallRecord]]:
        """The open runs of a record's site and streams."""
        runs = self._open.get(record.site, ())
        return [run for run in runs if run[-1].run_key == record.run_key]

    def _replace_run(self, record: CallRecord) -> bool:
        """Replace the run of an earlier call of the model if a record reads all of it again."""
        for run in self._runs_like(record):
            first = run[0]
            if len(run) == 1 and 0 < first.model_call < self._model_call:
                if not replaces_earlier(record, first):
                    continue
                lasting = _make_lasting(record)
                run[:] = [
                    replace(
                        lasting,
                        keys_seen=record.key_count,
                        model_call=self._model_call,
                        replaced=(*first.replaced, first.sizes[2]),
                    )
                ]
                self._begun[record.run_key] = self._model_call
                self._open[record.site].sort(key=lambda other: other is run)
                return True
        return False

    def _begin_run(self, record: CallRecord) -> None:
        """Begin a run; those of earlier calls of the model go on no longer."""
        key, runs = record.run_key, self._open[record.site]
        if not self._model_call or self._begun.get(key) != self._model_call:
            runs[:] = [run for run in runs if run[-1].run_key != key]
        self._begun[key] = self._model_call
        places = {"keys_seen": record.key_count, "model_call": self._model_call}
        run = [_make_lasting(record, **places)]
        runs.append(run)
        self._runs.append(run)

    def find_cached_keys(
        self, site: str, streams: tuple[str | None, str | None], key: Tensor, queries: int
    ) -> CachedKeys | None:
        """The run of self-attention whose last key comes just before the newest of these keys.

        It tells that queries attend to their own stream, where the data flow names two: a prompt of
        vectors goes on with embedded ids, a picture with text. None if there is no such run.
        """
        self._make_record(site)
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
            if run[0].key_count != record.key_count or run[0].sizes[2] != 1:
                continue  # the last of several chunks of queries may have one too
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
        record = _match_key_heads(record, earlier.key.shape[1])
        if record.weights is None and earlier.weights is not None and record.scoring is not None:
            # a prompt with rows that see nothing is kept by its weights, later steps by scores
            weights = weigh(record.query, record.key, record.scoring)
            record = replace(record, weights=weights, scoring=None, observed=None)
        if (record.weights is None) != (earlier.weights is None):
            return None
        if record.is_self_attention:
            chunk = continue_with_more_queries(record, run, self._model_call)
            return chunk or continue_with_more_keys(record, earlier)
        same_sizes = record.key_count == run[0].key_count and record.sizes[2] <= earlier.sizes[2]
        continued = self._continued.get(record.query_stream)
        if continued is None and same_sizes:
            continued = _has_same_keys(record, run[0])
        if not same_sizes or not continued:
            return None
        return replace(_make_lasting(record, 0), keys_seen=record.key_count)


def _match_key_heads(record: CallRecord, heads: int) -> CallRecord:
    """The record with this many heads of keys: a model may repeat them or not."""
    key, value = record.key, record.value
    if key.shape[1] == heads or not key.shape[1] or not heads:
        return record
    value = None if value is None else _match_heads(value, heads)
    return replace(record, key=_match_heads(key, heads), value=value)


def _match_heads(side: Tensor, heads: int) -> Tensor:
    """Keys or values with this many heads, repeated or, if they are repeated, each once."""
    own = side.shape[1]
    if own < heads and heads % own == 0:
        return side.repeat_interleave(heads // own, dim=1)
    times = own // heads
    is_repeated = own % heads == 0 and torch.equal(side[:, ::times], side[:, times - 1 :: times])
    return side[:, ::times] if is_repeated else side


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
    last = last if last.shape[1] == known.shape[1] else _match_heads(last, known.shape[1])
    if torch.equal(last, known):
        return before
    matches = any(bool(match.any(1).all()) for match in match_rows(last, known))
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
        candidates = match_rows(before, last)
        matches = next((match for match in candidates if bool(match.any(1).all())), None)
        if matches is None:
            return None
    return replace(_make_lasting(record, queries), keys_seen=keys_seen, row_matches=matches)


def continue_with_more_queries(
    record: CallRecord, run: list[CallRecord], model_call: int
) -> CallRecord | None:
    """Self-attention whose queries come in chunks: the record without keys, None if they do not.

    Within one call of the model, each chunk attends to the same keys.
    """
    first, keys = run[0], record.key_count
    queries = record.sizes[2] + sum(chunk.sizes[2] for chunk in run)
    if first.model_call != model_call or queries > keys or run[-1].keys_seen != keys:
        return None
    if first.sizes[0] != record.sizes[0] or first.key_count != keys:
        return None
    if not _has_same_keys(record, first, whole=record.weights is None):
        return None
    return replace(_make_lasting(record, 0), keys_seen=keys, model_call=model_call)


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


def _make_lasting(record: CallRecord, new: int | None = None, **places: Any) -> CallRecord:
    """The record with only its `new` last keys, and copies of buffers that may be overwritten.

    None keeps all keys; `places` are further fields of the record. Of a manual call only the last
    key is kept: it tells which row of the batch the next call continues.
    """
    value = record.value
    if value is not None:
        value = _copy_buffer(value) if new is None else _last_keys(value, new)
    if record.weights is not None:
        return record.with_fields(key=record.key[:, :, -1:].clone(), value=value, **places)
    key = _copy_buffer(record.key) if new is None else _last_keys(record.key, new)
    query, observed = _copy_buffer(record.query), record.observed
    if isinstance(observed, PendingObservation):
        # of all keys, which the record of a later step does not keep
        observed = observed.keep_sides(query, key) if new is None else observed.result()
    return record.with_fields(query=query, key=key, value=value, observed=observed, **places)


def _last_keys(side: Tensor, count: int) -> Tensor:
    """A copy of the last keys or values."""
    return side[:, :, side.shape[2] - count :].clone()


def _copy_buffer(side: Tensor) -> Tensor:
    """The tensor, or a copy if it was written in place before and may be again.

    A tensor of inference mode has no version counter, so it is always copied.
    """
    return side.clone() if side.is_inference() or side._version > 0 else side
