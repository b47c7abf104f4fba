"""Which example each row of an inner batch belongs to: pictures, tiles, frames, packed rows, loops.

A trace is of one example of the call. Where a model attends within batches of another size, the
rows are assigned by the facts that the data flow collected (`dataflow.example_facts`):

    4 pictures, of which 48 and 16 features go into two texts    ->  rows 0, 1, 2 and row 3
    2 texts, and rows that lie in a tensor (2, 5, ...) of tiles  ->  by the first axis
    1 row of 72 tokens, of which 40 and 32 belong to two texts   ->  tokens 0 to 39, and 40 to 71
    2 calls of 1 row at a site, for 2 examples                   ->  a loop: one call for each

Where a picture encoder is called by itself with the patches of several pictures in one list, the
pictures are its examples. If its features go into a later call, as when `generate` has called it
first, it has the examples of that call.

If nothing tells whose the rows are, the site becomes a gap: a map in the trace of another example
would be wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from regard.masks import Area
from regard.tracing.dataflow.example_facts import ModelCall, StreamStart
from regard.tracing.recording.record import CallRecord, InnerPart, InnerParts
from regard.types import Gap

Run = list[CallRecord]
Owners = list[int]  # for each of several rows, pictures or calls, the example that it belongs to


def assign_parts(
    runs: list[Run], model_calls: Sequence[ModelCall]
) -> tuple[list[Run], tuple[Gap, ...]]:
    """The runs with the parts of each example, and gaps in place of runs that nothing assigns."""
    assigned: dict[int, Run | None] = {}
    gaps: dict[str, Gap] = {}
    unpacked = set[int]()  # calls of the model
    for members, call in _find_inner_batches(runs, model_calls):
        group = [runs[n] for n in members]
        parts = Assignment(call, _joins_streams(runs, group[0][0], call)).assign(group)
        for place, n in enumerate(members):
            assigned[n] = None if parts is None else parts[place]
        if parts is None and call.packed:
            unpacked.add(group[0][0].model_call)
        elif parts is None:
            gaps[group[0][0].site] = _gap_of(group[0][0], call.examples)
    for n, run in enumerate(runs):
        if run[0].model_call in unpacked:  # some pictures are not told apart: one trace of all
            assigned.pop(n, None)
    kept = (assigned.get(n, run) for n, run in enumerate(runs))
    return [run for run in kept if run is not None], tuple(gaps.values())


def _find_inner_batches(
    runs: list[Run], model_calls: Sequence[ModelCall]
) -> Iterator[tuple[list[int], ModelCall]]:
    """The numbers of runs that began at one site in one call, and whose rows are no examples."""
    joined = _join_calls(model_calls)
    groups: dict[Any, list[int]] = {}
    sizes: dict[int, set[int]] = {}  # the batch sizes of each call of the model
    for n, run in enumerate(runs):
        first = run[0]
        groups.setdefault((first.model_call, first.run_key), []).append(n)
        sizes.setdefault(first.model_call, set()).add(first.sizes[0])
    for (number, _), members in groups.items():
        if not 0 < number <= len(model_calls):
            continue
        whole = joined[number - 1]
        if whole is not None:
            yield members, whole
            continue
        call, rows = model_calls[number - 1], [runs[n][0].sizes[0] for n in members]
        if call.packed:
            counts = call.packed
            yield members, replace(call, examples=len(counts), merges=[(None, counts)])
            continue
        streams = {stream for stream, _ in call.merges}
        if runs[members[0]][0].query_stream not in streams:  # a row for each example is no part
            members = [n for n in members if runs[n][0].sizes[0] != call.examples]
        in_loop = rows == [1] * call.examples
        # the number of examples is sure only if something attends with a row for each of them
        is_sure = call.examples > 1 and (call.examples in sizes[number] or in_loop)
        if members and is_sure:
            yield members, call


def _join_calls(model_calls: Sequence[ModelCall]) -> list[ModelCall | None]:
    """For each call of a part, the call that its features went into, with what came before it.

    None for other calls. The first axis of what a part was called with says nothing of examples.
    """
    joined: list[ModelCall | None] = [None] * len(model_calls)
    for number, call in enumerate(model_calls):
        first = number
        while first and model_calls[first - 1].has_vectors and not model_calls[first - 1].merges:
            first -= 1
        if call.has_vectors or not call.merges:
            continue
        earlier = model_calls[first:number]
        whole = ModelCall(
            call.examples // call.copies,
            has_earlier_parts=True,
            starts={
                name: StreamStart(start.rows)
                for each in earlier
                for name, start in each.starts.items()
            },
            merges=[(stream, counts[:: call.copies]) for stream, counts in call.merges],
            lists=[
                _first_copies(lengths, call) for each in (*earlier, call) for lengths in each.lists
            ],
            splits=[lengths for each in (*earlier, call) for lengths in each.splits],
        )
        joined[first:number] = [whole] * (number - first)
    return joined


def _first_copies(lengths: tuple[int, ...], call: ModelCall) -> tuple[int, ...]:
    """The lengths of features without those of further copies: A, B, A, B, C, C becomes A, B, C."""
    counts = next((c for _, c in call.merges if sum(c) == sum(lengths)), ())
    first, rest = list[int](), iter(lengths)
    for row, count in enumerate(counts):
        taken = list[int]()
        while sum(taken) < count:
            taken.append(next(rest, count))
        first += taken if row % call.copies == 0 else []
    return tuple(first) if call.copies > 1 and counts else lengths


def _joins_streams(runs: list[Run], record: CallRecord, call: ModelCall) -> bool:
    """True if the tokens of a call meet others, so that they belong to the examples of these."""
    if call.merges or record.query_stream in call.joined or record.key_stream in call.joined:
        return True
    streams = (record.query_stream, record.key_stream)
    return any(
        not run[0].is_self_attention and run[0].key_stream in streams and run[0] is not record
        for run in runs
    )


class Assignment:
    """Assigns the calls of one site in one call of the model."""

    def __init__(self, call: ModelCall, is_joined: bool) -> None:
        self.call, self.examples, self.is_joined = call, call.examples, is_joined

    def assign(self, group: list[Run]) -> list[Run] | None:
        """The runs with their parts; None if nothing tells whose they are."""
        first = group[0][0]
        if self.examples == 1:
            return [[_with_owners(each, [0] * each.sizes[0], 1) for each in run] for run in group]
        if len(group) > 1:
            return self._assign_loop(group)
        if first.sizes[0] == 1 and first.is_self_attention:
            packed = self._assign_packed(first)
            return None if packed is None else [[packed]]
        owners = self._owners_of_rows(first)
        if owners is None:
            start = self._start_of(first)
            is_own = not self.is_joined and start.length == start.rows
            return [[replace(first, windows=1)]] if is_own else None
        return [[_with_owners(record, owners, self.examples) for record in group[0]]]

    def _assign_loop(self, group: list[Run]) -> list[Run] | None:
        """Calls after one another, each for an example, a picture or a window of one."""
        firsts = [run[0] for run in group]
        owners = self._share([first.sizes[0] * first.sizes[2] for first in firsts], firsts[0])
        if owners is None and len(group) == self.examples and not self.call.has_earlier_parts:
            owners = list(range(self.examples))
        if owners is None:
            return None
        assigned = []
        for run, owner in zip(group, owners, strict=True):
            rows = [owner] * run[0].sizes[0]
            assigned.append([_with_owners(record, rows, self.examples) for record in run])
        return assigned

    def _assign_packed(self, record: CallRecord) -> CallRecord | None:
        """One row with the tokens of all examples, cut where no token sees across."""
        tokens = record.sizes[2]
        owners = self._share([1] * tokens, record)
        if owners is None or record.sizes[3] != tokens:
            return None
        ends = [owners.count(example) for example in range(self.examples)]
        stops = list(accumulate(ends))
        ranges = [range(stop - count, stop) for stop, count in zip(stops, ends, strict=True)]
        if any(_sees_across(record, part) for part in ranges):
            return None
        parts = tuple(InnerPart(n, 0, part) for n, part in enumerate(ranges) if part)
        return replace(record, windows=1, inner_parts=InnerParts(self.examples, parts))

    def _owners_of_rows(self, record: CallRecord) -> Owners | None:
        """The example of each row of a batch that is larger than the number of examples."""
        rows, start = record.sizes[0], self._start_of(record)
        if rows % start.rows:
            start = StreamStart(rows)
        owners = self._owners_of_start(start, record)
        return None if owners is None else _repeat(owners, rows // start.rows)

    def _start_of(self, record: CallRecord) -> StreamStart:
        """The rows with which the stream of a call began; its own rows if that is not known."""
        streams = (record.query_stream, record.key_stream)
        starts = (self.call.starts.get(stream or "") for stream in streams)
        return next((start for start in starts if start), StreamStart(record.sizes[0]))

    def _owners_of_start(self, start: StreamStart, record: CallRecord) -> Owners | None:
        is_merged = self.call.has_earlier_parts
        is_merged |= record.query_stream in {stream for stream, _ in self.call.merges}
        if start.rows == self.examples and not is_merged:
            return list(range(self.examples))
        if start.first_axis is not None and start.length == self.examples:
            return list(start.first_axis)
        if self.call.merges:
            owners = self._share([1] * start.rows, record)
            if owners is None and start.first_axis is not None:
                pictures = self._share([1] * start.length, record)
                owners = None if pictures is None else [pictures[n] for n in start.first_axis]
            return owners or self._owners_of_tiles(start.rows, record)
        if start.rows % self.examples or (start.first_axis is not None and not self.is_joined):
            return None
        return _repeat(list(range(self.examples)), start.rows // self.examples)

    def _owners_of_tiles(self, rows: int, record: CallRecord) -> Owners | None:
        """The example of each row, where the rows were split into those of single pictures."""
        for lengths in dict.fromkeys(self.call.splits):
            pictures = self._share(list(lengths), record) if sum(lengths) == rows else None
            if pictures is not None:
                pairs = zip(pictures, lengths, strict=True)
                return [picture for picture, length in pairs for _ in range(length)]
        return None

    def _share(self, sizes: list[int], record: CallRecord) -> Owners | None:
        """The example of each of several things of these sizes, by the features merged into each.

        Things are whole: the features of an example begin where a thing begins. If all features
        come in lists, one for each thing, their lengths take the place of the sizes.
        """
        answers = []
        for counts in self._counts_of(record):
            lists = (lengths for lengths in self.call.lists if sum(lengths) == sum(counts))
            fitting = (list(lengths) for lengths in lists if len(lengths) == len(sizes))
            for lengths in (sizes, *fitting):
                if (owners := _share_evenly(lengths, counts)) is not None:
                    answers.append([owner % self.examples for owner in owners])
                    break
        return answers[0] if answers and all(one == answers[0] for one in answers) else None

    def _counts_of(self, record: CallRecord) -> list[tuple[int, ...]]:
        """The features that were merged into each example, one after the other.

        If the call's own stream was merged several times, as for pictures and then for films, all
        of it counts; of other streams, any that fits.
        """
        streams = (record.query_stream, record.key_stream)
        own = [counts for stream, counts in self.call.merges if stream in streams]
        if own:
            return [tuple(count for counts in own for count in counts)]
        return list(dict.fromkeys(counts for _, counts in self.call.merges))


def _share_evenly(sizes: list[int], counts: Sequence[int]) -> Owners | None:
    """The example of each thing, if all features are spread evenly over the sizes of the things."""
    total, features = sum(sizes), sum(counts)
    if not features or not total:
        return None
    ends = [total * end for end in accumulate(counts)]  # in units of 1 / features
    owners, example, place = list[int](), 0, 0
    for size in sizes:
        place += size * features
        while ends[example] < place:
            if ends[example] > place - size * features:
                return None  # an example would end within this thing
            example += 1
        owners.append(example)
    return owners


def _repeat(owners: Owners, times: int) -> Owners:
    return [owner for owner in owners for _ in range(times)]


def _with_owners(record: CallRecord, owners: Owners, examples: int) -> CallRecord:
    """The record with the parts of each example; windows if each has as many rows."""
    each = len(owners) // examples
    if owners == _repeat(list(range(examples)), each):
        return replace(record, windows=each)
    parts = tuple(InnerPart(owner, row) for row, owner in enumerate(owners))
    return replace(record, windows=1, inner_parts=InnerParts(examples, parts))


def _sees_across(record: CallRecord, tokens: range) -> bool:
    """True if some of the tokens see others, or are seen by them."""
    count = record.sizes[3]
    if record.mask is None:
        return len(tokens) not in (0, count)
    visible = record.mask.cut(Area(range(count), range(count), 0, record.query.device))
    visible = visible.expand(-1, -1, count, count)
    own = slice(tokens.start, tokens.stop)
    across = visible[:, :, own].sum() + visible[:, :, :, own].sum()
    return bool(across != 2 * visible[:, :, own, own].sum())


def _gap_of(record: CallRecord, examples: int) -> Gap:
    """The gap of a site whose rows nothing assigns."""
    rows = record.sizes[0]
    return Gap(
        record.site,
        f"attends within {rows} row(s) that are not the {examples} examples of the call, "
        "and nothing tells which example each belongs to",
    )
