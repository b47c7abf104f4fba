"""Stacks the calls of a run into one call: each decoding step adds rows below and keys beside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from regard.kernels.observe import Observation, Statistics, Top
from regard.masks import Area, Bias, Mask, causal, everything, tensor_bias
from regard.tracing.mask_reading.dense import describe_dense_mask
from regard.tracing.recording.record import (
    CallRecord,
    EditedWeights,
    GradientSlot,
    InnerPart,
)

BatchRows = Sequence[int]  # the row of a step's batch that each trace has; -1 after its end


@dataclass(frozen=True, eq=False)
class StackedCall:
    """A run as one record, and which part of it belongs to each trace.

    `rows` is the row of the record's batch that each trace has, -1 for none. `query_counts` is how
    many of the queries belong to the trace; those after them came when it had ended. `in_loop` is
    True if the model attends to one example, or to one picture, after another.
    """

    record: CallRecord
    rows: Sequence[int]
    query_counts: Sequence[int]
    in_loop: bool = False

    def parts_of(self, trace: int) -> list[InnerPart]:
        """The parts of the record that belong to a trace."""
        row = self.rows[trace]
        return self.record.parts_of(row) if row >= 0 else []


def stack_run(run: list[CallRecord], rows: Sequence[BatchRows]) -> StackedCall:
    """The stacked call of a run; `rows` are those that the traces had at each of its steps."""
    traces = range(len(rows[0]))
    if len(rows) > len(run):
        return _end_traces(run[0], rows)
    queries = [record.sizes[2] for record in run]
    query_counts = [
        sum(count for count, row in zip(queries, rows, strict=True) if row[trace] >= 0)
        for trace in traces
    ]
    if len(run) == 1:
        return StackedCall(run[0], rows[0], query_counts, run[0].inner_parts is not None)
    # the batch of the stacked record are the traces
    places = [trace if rows[0][trace] >= 0 else -1 for trace in traces]
    windows, parts = run[0].windows, run[0].inner_parts
    if parts is not None:  # one row of one example in each step, as in a loop over examples
        first = {part.example: part.row for part in reversed(parts.parts)}
        rows = [[first.get(row, -1) for row in step] for step in rows]
        places = [trace if rows[0][trace] >= 0 else -1 for trace in traces]
        run = [replace(record, inner_parts=None) for record in run]
    elif windows > 1:
        rows = [
            [max(-1, row * windows + window) for row in step for window in range(windows)]
            for step in rows
        ]
    return StackedCall(stack_records(run, rows), places, query_counts, parts is not None)


def _end_traces(record: CallRecord, rows: Sequence[BatchRows]) -> StackedCall:
    """A record that took the place of earlier ones, where some traces have ended with those.

    `rows` has the steps of those, too; no row has moved between them.
    """
    counts = [*record.replaced, record.sizes[2]]
    ends = [
        max((step for step, row in enumerate(rows) if row[trace] >= 0), default=-1)
        for trace in range(len(rows[0]))
    ]
    places = [rows[end][trace] if end >= 0 else -1 for trace, end in enumerate(ends)]
    query_counts = [counts[end] if end >= 0 else 0 for end in ends]
    return StackedCall(record, places, query_counts, record.inner_parts is not None)


def split_steps(run: list[CallRecord]) -> list[CallRecord]:
    """The run with a record for each decoding step, where some stand for several."""
    return [step for record in run for step in _split_record(record)]


def _split_record(record: CallRecord) -> list[CallRecord]:
    observation, count = record.observation, record.steps
    if count == 1 or observation is None or observation.statistics is None:
        return [record]
    assert record.scoring is not None
    columns = [column.split(1, dim=2) for column in vars(observation.statistics).values()]
    parts = (record.query, record.key, observation.lse)
    rows = zip(*(part.split(1, dim=2) for part in parts), zip(*columns, strict=True), strict=True)
    steps = []
    for number, (query, key, lse, numbers) in enumerate(rows):
        keys = record.keys_seen - count + 1 + number
        scoring = replace(record.scoring, mask=None, offset=keys - 1)
        observed = replace(observation, lse=lse, statistics=Statistics(*numbers), scoring=scoring)
        step = replace(record, query=query, key=key, mask=None, scoring=scoring, key_count=keys)
        steps.append(replace(step, observed=observed, keys_seen=keys, steps=1))
    return steps


def stack_records(records: list[CallRecord], rows: Sequence[BatchRows]) -> CallRecord:
    """Records that continue one another as one, with all their queries and keys.

    The batch of the result are the traces. Rows of a trace after its end are filled with those of
    another, and see nothing.
    """
    steps = [select_rows(*step) for step in zip(records, rows, strict=True)]
    mask, last = _stack_masks(records, rows), steps[-1]
    whole = replace(
        _name_both_streams(last, records[0]),
        mask=mask,
        key_count=last.keys_seen,
        real_tokens=_stack_real_tokens(records, rows),
        row_matches=None,
        value=_stack_values(steps),
        gradient_slot=GradientSlot(_stack_gradients(steps)),
        edits=_place_edits(steps),
    )
    if last.weights is not None:
        weights = [_place_columns(step.weights, step, last.keys_seen) for step in steps]
        return replace(whole, weights=torch.cat(weights, dim=2))
    assert last.scoring is not None
    return replace(
        whole,
        query=torch.cat([step.query for step in steps], dim=2),
        key=torch.cat([step.key for step in steps], dim=2),
        scoring=replace(last.scoring, mask=mask, bias=_stack_biases(records, rows), offset=0),
        observed=_stack_observations(steps),
    )


def _name_both_streams(last: CallRecord, first: CallRecord) -> CallRecord:
    """The last record with both streams named if its steps were cross-attention.

    Unnamed, a stacked call with as many queries as keys would pass for self-attention.
    """
    if first.is_self_attention:
        return last
    queries = last.query_stream or "tokens"
    return replace(last, query_stream=queries, key_stream=last.key_stream or f"{queries} keys")


def select_rows(record: CallRecord, rows: BatchRows) -> CallRecord:
    """The record with these rows of its batch; its mask and bias stay those of the batch."""
    if is_whole_batch(record, rows):
        return record
    index = torch.tensor(rows, device=record.query.device).clamp_min(0)
    observation, gradient = record.observation, record.gradient
    if observation is not None:
        observation = replace(
            observation,
            lse=observation.lse[index],
            statistics=_select_numbers(observation.statistics, index),
            top=_select_numbers(observation.top, index),
            atlas=None,
        )
    return replace(
        record,
        query=record.query[index],
        key=record.key[index],
        weights=None if record.weights is None else record.weights[index],
        observed=observation,
        value=None if record.value is None else record.value[index],
        gradient_slot=GradientSlot(None if gradient is None else gradient[index]),
        edits=tuple(replace(edit, weights=edit.weights[index]) for edit in record.edits),
        row_matches=None,  # they concern the whole batch, and have been used already
    )


def is_whole_batch(record: CallRecord, rows: BatchRows) -> bool:
    """True if the rows are all those of the record's batch, each in its own place."""
    return len(rows) == record.sizes[0] and all(place == row for place, row in enumerate(rows))


def _select_numbers(numbers: Statistics | Top | None, index: Tensor):  # type: ignore[no-untyped-def]
    """The statistics or largest weights of some rows of the batch."""
    if numbers is None:
        return None
    return type(numbers)(*(column[index] for column in vars(numbers).values()))


def _stack_values(steps: list[CallRecord]) -> Tensor | None:
    values = [step.value for step in steps if step.value is not None]
    return torch.cat(values, dim=2) if len(values) == len(steps) else None


def _stack_gradients(steps: list[CallRecord]) -> Tensor | None:
    """The gradients of all steps; zeros for a step that none came to, None if none came at all."""
    any_gradient = next((step.gradient for step in steps if step.gradient is not None), None)
    if any_gradient is None:
        return None
    batch, heads, _, dim = any_gradient.shape
    rows = [
        any_gradient.new_zeros(batch, heads, step.sizes[2], dim)
        if step.gradient is None
        else step.gradient
        for step in steps
    ]
    return torch.cat(rows, dim=2)


def _place_edits(steps: list[CallRecord]) -> tuple[EditedWeights, ...]:
    """The edits of all steps, with their rows and columns counted in the stacked call."""
    edits, row = list[EditedWeights](), 0
    for step in steps:
        edits += [
            replace(edit, row=row, column=step.keys_seen - edit.weights.shape[3])
            for edit in step.edits
        ]
        row += step.sizes[2]
    return tuple(edits)


def _stack_masks(records: list[CallRecord], rows: Sequence[BatchRows]) -> Mask | None:
    """The mask of the stacked call."""
    is_self, total = records[0].is_self_attention, records[-1].keys_seen
    in_chunks = is_self and records[0].keys_seen == total  # all queries see the same keys
    simple = (None, everything()) if in_chunks else (None, causal(), everything())
    is_simple = all(record.mask in simple for record in records)
    if is_simple and all(record.key_count == record.keys_seen for record in records):
        # a step of decoding saw all keys so far and none beyond
        return causal() if is_self and not in_chunks else None
    visible = [
        _place_columns(_visible_keys(record, row), record, total)
        for record, row in zip(records, rows, strict=True)
    ]
    if not is_self:
        visible = _repeat_after_end(visible, rows)
    heads = max(step.shape[1] for step in visible)
    dense = torch.cat([step.expand(-1, heads, -1, -1) for step in visible], dim=2)
    return describe_dense_mask(dense)


def _stack_real_tokens(
    records: list[CallRecord], rows: Sequence[BatchRows]
) -> Bool[Tensor, "trace key"] | None:
    """Which keys of the stacked call are real, as each trace's last step has it; None for all."""
    if all(record.real_tokens is None for record in records):
        return None
    device, total = records[-1].query.device, records[-1].keys_seen
    real = torch.ones(len(rows[0]), total, dtype=torch.bool, device=device)
    for record, step_rows in zip(records, rows, strict=True):
        if record.real_tokens is None:
            continue
        columns = slice(record.keys_seen - record.key_count, record.keys_seen)
        for trace, row in enumerate(step_rows):
            if row >= 0:
                real[trace, columns] = record.real_tokens[row]
    return real


def _repeat_after_end(visible: list[Tensor], rows: Sequence[BatchRows]) -> list[Tensor]:
    """What a trace sees after its end as what it saw last, so that its mask stays simple."""
    repeated = visible[:1]
    for step, row in zip(visible[1:], rows[1:], strict=True):
        ended = torch.tensor(row, device=step.device) < 0
        repeated.append(torch.where(ended[:, None, None, None], repeated[-1][:, :, -1:], step))
    return repeated


def _visible_keys(record: CallRecord, rows: BatchRows) -> Bool[Tensor, "batch head query key"]:
    """Which keys each trace sees in one step; none after its end."""
    batch, _, queries, keys = record.sizes
    offset = keys - queries if record.is_self_attention else 0
    area = Area(range(queries), range(keys), offset, record.query.device)
    visible = (record.mask or everything()).cut(area).expand(batch, -1, queries, keys)
    if is_whole_batch(record, rows):
        return visible
    index = torch.tensor(rows, device=visible.device)
    return visible[index.clamp_min(0)] & (index >= 0)[:, None, None, None]


def _stack_biases(records: list[CallRecord], rows: Sequence[BatchRows]) -> Bias | None:
    """The bias of the stacked call, as a tensor; None if no step has one."""
    biases = [None if record.scoring is None else record.scoring.bias for record in records]
    if not any(biases):
        return None
    parts = []
    for record, bias, row in zip(records, biases, rows, strict=True):
        batch, heads, queries, keys = record.sizes
        area = Area(range(queries), range(keys), keys - queries, record.query.device)
        added = record.query.new_zeros(1, 1, queries, keys) if bias is None else bias.cut(area)
        added = added.expand(batch, heads, queries, keys)
        if not is_whole_batch(record, row):
            added = added[torch.tensor(row, device=added.device).clamp_min(0)]
        parts.append(_place_columns(added, record, records[-1].keys_seen))
    return tensor_bias(torch.cat(parts, dim=2))


def _place_columns(rows: Tensor | None, record: CallRecord, total: int) -> Tensor:
    """Rows over the keys of one call as rows over all keys; its own end at `keys_seen`."""
    assert rows is not None
    return F.pad(rows, (record.keys_seen - rows.shape[3], total - record.keys_seen))


def _stack_observations(steps: list[CallRecord]) -> Observation:
    """The statistics of all rows. Atlases of steps cannot be joined; a window makes one later."""
    observed = [step.observation for step in steps if step.observation is not None]
    last = observed[-1]
    statistics = [_renumber_statistics(step) for step in steps]
    tops = [_renumber_top(step) for step in steps]
    return replace(
        last,
        lse=torch.cat([observation.lse for observation in observed], dim=2),
        statistics=None if last.statistics is None else Statistics(*_join_columns(statistics)),
        top=None if last.top is None else Top(*_join_columns(tops)),
        atlas=None,
    )


def _renumber_statistics(step: CallRecord) -> Statistics | None:
    """The statistics of a step, with keys numbered among all.

    Where a sliding cache has dropped the first key, no weight is on it.
    """
    statistics = None if step.observation is None else step.observation.statistics
    if statistics is None or step.key_count == step.keys_seen:
        return statistics
    return replace(
        statistics,
        largest_key=_renumber_keys(statistics.largest_key, step),
        on_first=torch.zeros_like(statistics.on_first),
    )


def _renumber_top(step: CallRecord) -> Top | None:
    """The largest weights of a step, with keys numbered among all."""
    top = None if step.observation is None else step.observation.top
    if top is None or step.key_count == step.keys_seen:
        return top
    return replace(top, keys=_renumber_keys(top.keys, step))


def _renumber_keys(keys: Tensor, step: CallRecord) -> Tensor:
    """Numbers of the step's keys among all keys; -1, for none, stays."""
    return torch.where(keys < 0, keys, keys + (step.keys_seen - step.key_count))


def _join_columns(parts: list[Statistics | None] | list[Top | None]) -> list[Tensor]:
    """Each field of the parts, joined over queries."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return [torch.cat(rows, dim=2) for rows in columns]
