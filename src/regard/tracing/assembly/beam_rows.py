"""Which row of the batch each trace had at each step of each run.

Beams move between rows, finished sentences leave the batch, and an encoder may have run before its
rows were repeated for every beam. If the caller says which rows the kept hypotheses had, that
decides; otherwise rows are recognised by their keys.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.tracing.assembly.stacking import BatchRows
from regard.tracing.recording.record import CallRecord

StepRows = list[list[int]]  # by step, then by trace; -1 where the trace is not in the batch
GroupKey = tuple[tuple[int, ...], int]  # the batch sizes of its steps, and a number if repeated


@dataclass(frozen=True)
class RowHistory:
    """The rows of traces in one decoding, and the size of its first batch."""

    rows: StepRows
    first_batch: int

    @property
    def traces(self) -> int:
        """How many traces there are."""
        return len(self.rows[-1])


def find_trace_rows(runs: list[list[CallRecord]], labelled: Tensor | None = None) -> list[StepRows]:
    """For each run and step, the row of the batch that each trace had, -1 for none.

    `labelled` are the rows that the caller knows, by step and trace.
    """
    if labelled is not None and len(labelled):
        return _rows_from_labels(runs, labelled.tolist())
    groups = _group_runs(runs)
    histories = {key: _find_history([runs[n] for n in members]) for key, members in groups.items()}
    main = max(histories.values(), key=lambda history: len(history.rows))
    count = max(history.traces for history in histories.values())
    has_cross = any(not run[0].is_self_attention for run in runs)
    repeated = len(main.rows) > 1 or has_cross
    rows: dict[int, StepRows] = {}
    for key, history in histories.items():
        for n in groups[key]:
            rows[n] = _rows_of_traces(history, main, count, repeated)
    return [rows[n] for n in range(len(runs))]


def _group_runs(runs: list[list[CallRecord]]) -> dict[GroupKey, list[int]]:
    """The numbers of runs that took the same steps together, as all layers of a decoder do.

    A second decoding of the same sizes is a group of its own.
    """
    repeats = Counter[Any]()
    groups: dict[GroupKey, list[int]] = {}
    for n, run in enumerate(runs):
        batches = tuple(record.examples for record in run)
        groups.setdefault((batches, repeats[run[0].run_key, batches]), []).append(n)
        repeats[run[0].run_key, batches] += 1
    return groups


def _find_history(runs: list[list[CallRecord]]) -> RowHistory:
    """The rows of traces in runs that took the same steps, recognised by keys."""
    batches = [record.examples for record in runs[0]]
    unmoved = all(record.row_matches is None for run in runs for record in run)
    if len(set(batches)) == 1 and unmoved:
        return RowHistory([list(range(batches[0]))] * len(batches), batches[0])
    parents = [
        _find_parents([run[step].row_matches for run in runs], batches[step - 1], batches[step])
        for step in range(1, len(batches))
    ]
    # if no row was repeated and the batch shrank, sentences have left and keep their traces
    never_split = all(len({*step}) == len(step) for step in parents)
    follow = _follow_forwards if never_split and batches[-1] < batches[0] else _follow_backwards
    return RowHistory(follow(parents, batches), batches[0])


def _find_parents(matches: Sequence[Tensor | None], before: int, now: int) -> list[int]:
    """The row that each row was at the step before: the one that most sites agree on.

    The keys of a first layer depend on the last token alone, those of deeper layers on all before
    it. A row that may have stayed did; of several equal candidates, one that is still free.
    """
    votes = [match.int() for match in matches if match is not None]
    if not votes:
        spread = max(1, now // before)
        return [min(row // spread, before - 1) for row in range(now)]
    total = torch.stack(votes).sum(dim=0)
    best = (total == total.amax(dim=1, keepdim=True)).tolist()
    stays = before == now
    parents = [row if stays and best[row][row] else -1 for row in range(now)]
    free = {*range(before)} - {*parents}
    for row, parent in enumerate(parents):
        if parent < 0:
            candidates = [candidate for candidate, fits in enumerate(best[row]) if fits]
            parents[row] = next((row for row in candidates if row in free), candidates[0])
            free.discard(parents[row])
    return parents


def _follow_backwards(parents: list[list[int]], batches: list[int]) -> StepRows:
    """The rows of the last batch, followed back to the first."""
    rows = [list(range(batches[-1]))]
    for step in reversed(parents):
        rows.append([step[row] for row in rows[-1]])
    return rows[::-1]


def _follow_forwards(parents: list[list[int]], batches: list[int]) -> StepRows:
    """The rows of the first batch, followed until they leave."""
    rows = [list(range(batches[0]))]
    for step in parents:
        child = {parent: row for row, parent in enumerate(step)}
        rows.append([child.get(row, -1) for row in rows[-1]])
    return rows


def _rows_of_traces(history: RowHistory, main: RowHistory, count: int, repeated: bool) -> StepRows:
    """The rows of a history for each of `count` traces, which are those of the main history.

    Where rows were `repeated`, as for the beams of an example, an encoder that ran before has one
    row for several traces.
    """
    if history is main and history.traces == count:
        return history.rows
    first_rows = main.rows[0] if main.traces == count else list(range(count))
    batch = main.first_batch if main.traces == count else count
    if len(history.rows) > 1:
        first_rows, batch = list(range(count)), count
    places = [_map_row(row, batch, history.traces, repeated) for row in first_rows]
    return [[step[place] if place >= 0 else -1 for place in places] for step in history.rows]


def _map_row(row: int, batch: int, other_batch: int, repeated: bool) -> int:
    """Which row of another batch, smaller or larger, a row belongs to; -1 if it is not there."""
    if repeated and batch % other_batch == 0:
        return row // (batch // other_batch)
    if repeated and other_batch % batch == 0:
        return row * (other_batch // batch)
    return row if row < other_batch else -1


def _rows_from_labels(runs: list[list[CallRecord]], labelled: StepRows) -> list[StepRows]:
    """The caller's rows for the runs that decoded; rows of encoders by example."""
    calls = Counter[Any]()
    for run in runs:
        calls[run[0].run_key] += len(run) + len(run[0].replaced)
    most = max(calls.values())
    first_batches = [run[0].examples for run in runs if calls[run[0].run_key] == most]
    start = first_batches[0] if most > 1 else max(first_batches)
    rows, steps_before = list[StepRows](), Counter[Any]()
    for run in runs:
        key = run[0].run_key
        decoded = calls[key] == most and (most > 1 or run[0].examples == start)
        if len(run) > 1 or decoded:
            first_step = steps_before[key] if len(run) == 1 else 0
            rows.append(_decoder_rows(run, labelled, first_step))
        else:
            rows.append([_encoder_rows(labelled[0], start, run[0].examples)])
        steps_before[key] += len(run) + len(run[0].replaced)
    return rows


def _decoder_rows(run: list[CallRecord], labelled: StepRows, first_step: int) -> StepRows:
    """The caller's rows for a run that began at a step; a prompt read in pieces is one step."""
    pieces = next((n for n, record in enumerate(run) if record.sizes[2] == 1), len(run))
    more = 0 if len(run) == len(labelled) else max(0, pieces - 1)
    run, rows = run * (1 + len(run[0].replaced)) if len(run) == 1 else run, []
    for n, record in enumerate(run):
        step = first_step + max(0, n - more)
        row = labelled[step] if step < len(labelled) else [-1] * len(labelled[0])
        if max(row, default=-1) >= record.examples:
            raise InputError(
                f"TokenLabels expected rows below {record.examples} at step {step}, as many as "
                f"{record.site!r} had in its batch, got {max(row)}"
            )
        rows.append(row)
    return rows


def _encoder_rows(first: BatchRows, start: int, batch: int) -> list[int]:
    """The rows of an encoder that ran once for each example, or each row of the first batch."""
    if batch == len(first) != start:
        return list(range(batch))
    return [_map_row(row, start, batch, repeated=True) for row in first]
