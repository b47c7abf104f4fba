"""Who was who: the row of the batch that each trace had in each call of each run.

Beams move between steps, finished sentences leave, and an encoder may have run before its rows
were repeated for every beam. What the caller told settles it; else the keys do.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.tracing.assembly.stacking import Row
from regard.tracing.recording.record import CallRecord

Rows = list[list[int]]  # by step, then by trace; -1 where the trace is not there
Group = tuple[tuple[int, ...], int]  # the batches of its steps; which of those that are alike


@dataclass(frozen=True)
class Family:
    """The rows of traces in one decoding, and how many rows its first batch had."""

    rows: Rows
    first: int

    @property
    def traces(self) -> int:
        """How many there are."""
        return len(self.rows[-1])


def lineage(runs: list[list[CallRecord]], told: Tensor | None = None) -> list[Rows]:
    """For each run the row of its batch that each trace had at each step, -1 where none."""
    if told is not None and len(told):
        return _told(runs, told.tolist())
    groups = _groups(runs)
    families = {group: _family([runs[n] for n in found]) for group, found in groups.items()}
    main = max(families.values(), key=lambda family: len(family.rows))
    count = max(family.traces for family in families.values())
    repeated = len(main.rows) > 1 or any(not run[0].looks_at_itself for run in runs)
    rows: dict[int, Rows] = {}
    for group, family in families.items():
        for n in groups[group]:
            rows[n] = _shared(family, main, count, repeated)
    return [rows[n] for n in range(len(runs))]


def _batch(call: CallRecord) -> int:
    """How many examples a call had."""
    return call.sizes[0] // call.parts


def _groups(runs: list[list[CallRecord]]) -> dict[Group, list[int]]:
    """The runs that went through the same steps together: self- and cross-attention of a decoder.

    A second decoding of the same sizes is a group of its own.
    """
    again = Counter[Any]()
    groups: dict[Group, list[int]] = {}
    for n, run in enumerate(runs):
        batches = tuple(map(_batch, run))
        groups.setdefault((batches, again[run[0].look, batches]), []).append(n)
        again[run[0].look, batches] += 1
    return groups


def _family(runs: list[list[CallRecord]]) -> Family:
    batches = list(map(_batch, runs[0]))
    if len(set(batches)) == 1 and all(call.matches is None for run in runs for call in run):
        return Family([list(range(batches[0]))] * len(batches), batches[0])
    parents = [
        _parents([run[step].matches for run in runs], batches[step - 1], batches[step])
        for step in range(1, len(batches))
    ]
    alone = all(len({*each}) == len(each) for each in parents)
    found = _forwards if alone and batches[-1] < batches[0] else _backwards
    return Family(found(parents, batches), batches[0])


def _parents(matches: Sequence[Tensor | None], before: int, now: int) -> list[int]:
    """The row that each row was in the step before: one that the keys of most sites agree on.

    The keys of a first layer know the last token alone; those of deeper layers all that came
    before. A row that may have stayed did; of others that are alike, one that is not taken yet.
    """
    votes = [each.int() for each in matches if each is not None]
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
            candidates = [each for each, fits in enumerate(best[row]) if fits]
            parents[row] = next((each for each in candidates if each in free), candidates[0])
            free.discard(parents[row])
    return parents


def _backwards(parents: list[list[int]], batches: list[int]) -> Rows:
    """The rows of the last batch, followed back to the first."""
    rows = [list(range(batches[-1]))]
    for each in reversed(parents):
        rows.append([each[row] for row in rows[-1]])
    return rows[::-1]


def _forwards(parents: list[list[int]], batches: list[int]) -> Rows:
    """The rows of the first batch, followed until they leave."""
    rows = [list(range(batches[0]))]
    for each in parents:
        child = {parent: row for row, parent in enumerate(each)}
        rows.append([child.get(row, -1) for row in rows[-1]])
    return rows


def _shared(family: Family, main: Family, count: int, repeated: bool) -> Rows:
    """The rows of a family for each of `count` traces, which are those of the main one.

    Where rows were `repeated`, as for the beams of an example, an encoder that ran before has one
    row for several traces.
    """
    if family is main and family.traces == count:
        return family.rows
    roots = main.rows[0] if main.traces == count else list(range(count))
    start = main.first if main.traces == count else count
    if len(family.rows) > 1:
        roots, start = list(range(count)), count
    places = [_place(root, start, family.traces, repeated) for root in roots]
    return [[step[place] if place >= 0 else -1 for place in places] for step in family.rows]


def _place(row: int, batch: int, others: int, repeated: bool) -> int:
    """Where a row of a batch was among fewer others, or more; -1 if it was not there."""
    if repeated and batch % others == 0:
        return row // (batch // others)
    if repeated and others % batch == 0:
        return row * (others // batch)
    return row if row < others else -1


def _told(runs: list[list[CallRecord]], told: Rows) -> list[Rows]:
    """The rows that the caller told, for the calls that decoded; those of encoders by example."""
    calls = Counter[Any]()
    for run in runs:
        calls[run[0].look] += len(run)
    most = max(calls.values())
    firsts = [_batch(run[0]) for run in runs if calls[run[0].look] == most]
    start = firsts[0] if most > 1 else max(firsts)
    found, before = list[Rows](), Counter[Any]()
    for run in runs:
        look = run[0].look
        if len(run) > 1 or (calls[look] == most and (most > 1 or _batch(run[0]) == start)):
            found.append(_decoded(run, told, before[look] if len(run) == 1 else 0))
        else:
            found.append([_encoded(told[0], start, _batch(run[0]))])
        before[look] += len(run)
    return found


def _decoded(run: list[CallRecord], told: Rows, late: int) -> Rows:
    """The rows of a run that began at the step `late`; a prompt read in pieces is one step."""
    pieces = next((n for n, call in enumerate(run) if call.sizes[2] == 1), len(run))
    more = 0 if len(run) == len(told) else max(0, pieces - 1)
    rows = []
    for n, call in enumerate(run):
        step = late + max(0, n - more)
        row = told[step] if step < len(told) else [-1] * len(told[0])
        if max(row, default=-1) >= _batch(call):
            raise InputError(
                f"TokenLabels expected rows below {_batch(call)} at step {step}, as many as "
                f"{call.site!r} had in its batch, got {max(row)}"
            )
        rows.append(row)
    return rows


def _encoded(first: Row, start: int, batch: int) -> list[int]:
    """The rows of an encoder that ran once for each example, or for each row of the first batch."""
    if batch == len(first) != start:
        return list(range(batch))
    return [_place(row, start, batch, repeated=True) for row in first]
