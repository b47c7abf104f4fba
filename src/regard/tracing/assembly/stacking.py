"""Decoding step by step as one call: each new row goes under the rows before it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from regard.kernels.observe import Observation, Statistics, Top
from regard.masks import Area, Bias, Mask, causal, everything, tensor_bias
from regard.tracing.mask_reading.dense import describe_dense_mask
from regard.tracing.recording.options import joined
from regard.tracing.recording.record import CallRecord

Row = Sequence[int]  # of the batch of one step, for each trace; -1 after its end


@dataclass(frozen=True, eq=False)
class StackedCall:
    """A run as one call: the row of its batch that each trace has, -1 for none, and its end.

    `reads` is how many of the call's queries are the trace's own; what follows is not.
    """

    call: CallRecord
    rows: Sequence[int]
    reads: Sequence[int]


def stack(run: list[CallRecord], rows: Sequence[Row]) -> StackedCall:
    """One call for the run; `rows` are those that the traces had in each of its steps."""
    traces = range(len(rows[0]))
    queries = [call.sizes[2] for call in run]
    reads = [
        sum(count for count, row in zip(queries, rows, strict=True) if row[trace] >= 0)
        for trace in traces
    ]
    if len(run) == 1:
        return StackedCall(run[0], rows[0], reads)
    places = [trace if rows[0][trace] >= 0 else -1 for trace in traces]
    parts = run[0].parts
    if parts > 1:
        rows = [[max(-1, row * parts + n) for row in each for n in range(parts)] for each in rows]
    return StackedCall(stacked(run, rows), places, reads)


def stacked(calls: list[CallRecord], rows: Sequence[Row]) -> CallRecord:
    """Calls that continue one another as one call with all their rows and keys.

    At each step `rows` are those of the batch that the traces had: its batch are the traces. Rows
    of a trace after its end are those of another, and see nothing.
    """
    steps = [taken(*each) for each in zip(calls, rows, strict=True)]
    mask, last = _mask(calls, rows), steps[-1]
    kept = joined([step.kept for step in steps], [(step.sizes[2], step.end) for step in steps])
    whole = replace(_apart(last, calls[0]), mask=mask, kept=kept, span=last.end, matches=None)
    if last.weights is not None:
        weights = [_placed(step.weights, step, last.end) for step in steps]
        return replace(whole, weights=torch.cat(weights, dim=2))
    assert last.scoring is not None
    return replace(
        whole,
        query=torch.cat([step.query for step in steps], dim=2),
        key=torch.cat([step.key for step in steps], dim=2),
        scoring=replace(last.scoring, mask=mask, bias=_bias(calls, rows), offset=0),
        observed=_observation(steps),
    )


def _apart(last: CallRecord, first: CallRecord) -> CallRecord:
    """The call with its streams named where steps looked elsewhere.

    As many rows as keys would else seem to look at themselves.
    """
    if first.looks_at_itself:
        return last
    queries = last.queries or "tokens"
    return replace(last, queries=queries, keys=last.keys or f"{queries} keys")


def taken(call: CallRecord, row: Row) -> CallRecord:
    """The call with these rows of its batch; its mask and bias stay those of the batch."""
    if is_whole(call, row):
        return call
    index = torch.tensor(row, device=call.query.device).clamp_min(0)
    observed = call.observed
    if observed is not None:
        observed = replace(
            observed,
            lse=observed.lse[index],
            statistics=_taken(observed.statistics, index),
            top=_taken(observed.top, index),
            atlas=None,
        )
    return replace(
        call,
        query=call.query[index],
        key=call.key[index],
        weights=None if call.weights is None else call.weights[index],
        observed=observed,
        kept=call.kept.taken(index),
        matches=None,  # of the whole batch, and counted already
    )


def is_whole(call: CallRecord, row: Row) -> bool:
    """Whether the rows are all those of the call's batch, each in its own place."""
    return len(row) == call.sizes[0] and all(place == each for place, each in enumerate(row))


def _mask(calls: list[CallRecord], rows: Sequence[Row]) -> Mask | None:
    itself, total = calls[0].looks_at_itself, calls[-1].end
    plain = all(call.mask in (None, causal(), everything()) for call in calls)
    if plain and all(call.span == call.end for call in calls):
        return causal() if itself else None  # a row saw all keys so far and none beyond
    seen = [_placed(_seen(call, row), call, total) for call, row in zip(calls, rows, strict=True)]
    if not itself:
        seen = _going_on(seen, rows)
    heads = max(each.shape[1] for each in seen)
    return describe_dense_mask(torch.cat([each.expand(-1, heads, -1, -1) for each in seen], dim=2))


def _going_on(seen: list[Tensor], rows: Sequence[Row]) -> list[Tensor]:
    """What a trace saw after its end as what it saw at last, so that its mask stays simple."""
    found = seen[:1]
    for step, row in zip(seen[1:], rows[1:], strict=True):
        ended = torch.tensor(row, device=step.device) < 0
        found.append(torch.where(ended[:, None, None, None], found[-1][:, :, -1:], step))
    return found


def _seen(call: CallRecord, row: Row) -> Bool[Tensor, "batch head query key"]:
    """What each trace saw in one step; nothing after its end."""
    batch, _, queries, keys = call.sizes
    offset = keys - queries if call.looks_at_itself else 0
    area = Area(range(queries), range(keys), offset, call.query.device)
    seen = (call.mask or everything()).cut(area).expand(batch, -1, queries, keys)
    if is_whole(call, row):
        return seen
    index = torch.tensor(row, device=seen.device)
    return seen[index.clamp_min(0)] & (index >= 0)[:, None, None, None]


def _bias(calls: list[CallRecord], rows: Sequence[Row]) -> Bias | None:
    terms = [None if call.scoring is None else call.scoring.bias for call in calls]
    if not any(terms):
        return None
    found = []
    for call, bias, row in zip(calls, terms, rows, strict=True):
        batch, heads, queries, keys = call.sizes
        area = Area(range(queries), range(keys), keys - queries, call.query.device)
        added = call.query.new_zeros(1, 1, queries, keys) if bias is None else bias.cut(area)
        added = added.expand(batch, heads, queries, keys)
        if not is_whole(call, row):
            added = added[torch.tensor(row, device=added.device).clamp_min(0)]
        found.append(_placed(added, call, calls[-1].end))
    return tensor_bias(torch.cat(found, dim=2))


def _placed(rows: Tensor | None, call: CallRecord, total: int) -> Tensor:
    """Rows over the keys of one call as rows over all: theirs end where the call's do."""
    assert rows is not None
    return F.pad(rows, (call.end - rows.shape[3], total - call.end))


def _observation(steps: list[CallRecord]) -> Observation:
    """The rows of all; atlases of pieces do not join, a window gives one when asked for."""
    observed = [step.observed for step in steps if step.observed is not None]
    last = observed[-1]
    statistics = [_counted(step) for step in steps]
    tops = [_named(step) for step in steps]
    return replace(
        last,
        lse=torch.cat([each.lse for each in observed], dim=2),
        statistics=None if last.statistics is None else Statistics(*_joined(statistics)),
        top=None if last.top is None else Top(*_joined(tops)),
        atlas=None,
    )


def _counted(step: CallRecord) -> Statistics | None:
    """The numbers of a step whose keys are the last of all: none of its weight is on the first."""
    found = None if step.observed is None else step.observed.statistics
    if found is None or step.span == step.end:
        return found
    return replace(
        found,
        largest_key=_moved(found.largest_key, step),
        on_first=torch.zeros_like(found.on_first),
    )


def _named(step: CallRecord) -> Top | None:
    found = None if step.observed is None else step.observed.top
    if found is None or step.span == step.end:
        return found
    return replace(found, keys=_moved(found.keys, step))


def _moved(keys: Tensor, step: CallRecord) -> Tensor:
    """Numbers of the step's keys among all keys; -1, for none, stays."""
    return torch.where(keys < 0, keys, keys + (step.end - step.span))


def _taken(numbers: Statistics | Top | None, index: Tensor):  # type: ignore[no-untyped-def]
    if numbers is None:
        return None
    return type(numbers)(*(each[index] for each in vars(numbers).values()))


def _joined(parts: list[Statistics | None] | list[Top | None]) -> list[Tensor]:
    columns = zip(*(vars(each).values() for each in parts), strict=True)
    return [torch.cat(rows, dim=2) for rows in columns]
