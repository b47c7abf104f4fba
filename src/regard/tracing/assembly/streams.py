"""The streams of tokens in a block: their names, lengths, and which of their tokens are real.

A stream begins where the data flow says so; one that is pooled on its way goes on as another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.masks import Mask
from regard.masks.mask import AllOf, Lengths, Padding
from regard.tracing.assembly.stacking import StackedCall
from regard.tracing.recording.record import CallRecord

StreamKey = tuple[str, int]  # where a stream began, and its length
WINDOW = " window"  # ends the key of a stream that is seen in windows


@dataclass(frozen=True)
class Stream:
    """One stream: its name, where it began, its length, and the real tokens of each trace.

    `real` is None for a trace that does not have the stream. `decoded` is True if its rows are
    read one by one, so that the last of them may have produced one more token.
    """

    name: str
    beginning: str
    length: int
    real: Sequence[range | None]
    decoded: bool = False


Streams = Mapping[StreamKey, Stream]


def stream_keys(record: CallRecord) -> tuple[StreamKey, StreamKey]:
    """The streams of the rows and of the columns of a call."""
    _, _, queries, keys = record.sizes
    rows = (record.query_stream or "tokens") + (WINDOW if record.has_windows else "")
    if record.is_self_attention:
        return (rows, keys), (rows, keys)
    return (rows, queries), (record.key_stream or f"{rows} keys", keys)


def find_streams(calls: list[StackedCall]) -> dict[StreamKey, Stream]:
    """All streams of a block, in the order of its calls."""
    records = [call.record for call in calls]
    decoded = {
        stream_keys(record)[0]
        for record in records
        if record.is_causal or not record.is_self_attention
    }
    real = _find_real_tokens(calls)
    return {
        key: Stream(name, key[0], key[1], real[key], key in decoded)
        for key, name in name_streams([stream_keys(record) for record in records]).items()
    }


def name_streams(pairs: list[tuple[StreamKey, StreamKey]]) -> dict[StreamKey, str]:
    """Names of streams: "tokens" if there is one, "source" and "target" if one attends to another.

    Otherwise the path of the module where each began, without what all paths have in common:
    text_model and vision_model.
    """
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    if len(keys) == 1:
        return {keys[0]: "tokens"}
    short = _shorten_paths(list(dict.fromkeys(label for label, _ in keys)))
    labels = [label for label, _ in keys]
    names = {
        (label, length): short[label] + (f" ({length})" if labels.count(label) > 1 else "")
        for label, length in keys
    }
    crossing = {(rows, columns) for rows, columns in pairs if rows != columns}
    if len(crossing) == 1:
        rows, columns = crossing.pop()
        names[rows], names[columns] = "target", "source"
    return names


def _shorten_paths(labels: list[str]) -> dict[str, str]:
    """The paths without the modules that all have in common, at their beginnings and ends."""
    paths = {label: label.split(".") for label in labels}
    for end in (0, -1):
        while len(labels) > 1 and min(map(len, paths.values())) > 1:
            if len({path[end] for path in paths.values()}) > 1:
                break
            for path in paths.values():
                path.pop(end)
    return {label: ".".join(path) for label, path in paths.items()}


def _find_real_tokens(calls: list[StackedCall]) -> dict[StreamKey, list[range | None]]:
    """The real tokens of each trace in each stream: by the masks, and up to the trace's end."""
    real: dict[StreamKey, dict[int, range]] = defaultdict(dict)
    ends: dict[tuple[StreamKey, int], int] = {}
    traces = range(len(calls[0].rows))
    for call in calls:
        row_stream, column_stream = stream_keys(call.record)
        by_mask, queries = None, call.record.sizes[2]
        if not call.record.has_windows:
            by_mask = real_keys(call.record)
        for trace in traces:
            parts = call.parts_of(trace)
            if not parts:
                continue
            real[row_stream].setdefault(trace, range(row_stream[1]))
            real[column_stream].setdefault(trace, range(column_stream[1]))
            if parts[0].tokens is not None:
                real[row_stream][trace] = real[column_stream][trace] = parts[0].tokens
            elif by_mask is not None:
                real[column_stream][trace] = by_mask[parts[0].row]
            if call.query_counts[trace] < queries:
                ends[row_stream, trace] = row_stream[1] - queries + call.query_counts[trace]
    for (key, trace), end in ends.items():
        tokens = real[key][trace]
        real[key][trace] = range(min(tokens.start, end), min(tokens.stop, end))
    return {key: [found.get(trace) for trace in traces] for key, found in real.items()}


def real_keys(record: CallRecord) -> tuple[range, ...] | None:
    """Which keys of each row of the batch are not padding; None if nothing tells.

    What the caller of the model said comes first, then masks that hide keys from all queries. A
    mask of pairs alone makes no token padding: one that nobody else sees still attends itself.
    """
    if record.real_tokens is not None:
        return _real_ranges(record.real_tokens, record)
    for part in _mask_parts(record.mask):
        if isinstance(part, Padding | Lengths):
            visible = part.dense(1, record.sizes[3])[:, 0, 0]
            if record.is_self_attention and record.is_causal:
                # the queries of hidden keys at the end still see earlier keys, so they attend
                visible = visible.cummax(dim=1).values
            return _real_ranges(visible, record)
    return None


def _mask_parts(mask: Mask | None) -> Iterable[Mask]:
    """The mask, or the masks that it combines."""
    if isinstance(mask, AllOf):
        for part in mask.parts:
            yield from _mask_parts(part)
    elif mask is not None:
        yield mask


def _real_ranges(real: Tensor, record: CallRecord) -> tuple[range, ...]:
    ranges = tuple(map(_real_range, real))
    return ranges * record.sizes[0] if len(ranges) == 1 else ranges


def _real_range(real: Tensor) -> range:
    """From the first to the last real key; all keys if none is."""
    places = real.nonzero()[:, 0]
    return range(int(places[0]), int(places[-1]) + 1) if len(places) else range(len(real))
