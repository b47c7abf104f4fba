"""Makes one trace for each example from the records of a block."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe import Atlas, Scoring, Statistics, Top
from regard.masks import Part, everything
from regard.tracing.assembly.beam_rows import find_trace_rows
from regard.tracing.assembly.inner_parts import assign_parts
from regard.tracing.assembly.kinds import classify_runs
from regard.tracing.assembly.map_extras import add_extras
from regard.tracing.assembly.slots import tell_slots_apart
from regard.tracing.assembly.stacking import StackedCall, split_steps, stack_run
from regard.tracing.assembly.streams import Streams, find_streams, stream_keys
from regard.tracing.assembly.token_labels import BlockInfo, label_tokens
from regard.tracing.recording.options import WeightsForm
from regard.tracing.recording.record import CallRecord, InnerPart
from regard.types import (
    AttentionMap,
    Axis,
    DenseWeights,
    RecomputableWeights,
    SummaryOnly,
    Tokens,
    Trace,
)
from regard.types.maps import shift_keys


class LazyTraces(Sequence[Trace]):
    """One trace for each example, made when it is first asked for: few callers read all of them."""

    def __init__(self, count: int, make: Callable[[int], Trace]) -> None:
        self._made: list[Trace | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | list[Trace]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        trace = self._made[number]
        if trace is None:
            trace = self._made[number] = self._make(number)
        return trace


class PendingTraces(Sequence[Trace]):
    """The traces of a block, put together when they are first asked for."""

    def __init__(self, make: Callable[[], Sequence[Trace]]) -> None:
        self._make: Callable[[], Sequence[Trace]] | None = make
        self._made: Sequence[Trace] = ()

    def __len__(self) -> int:
        return len(self._traces())

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | Sequence[Trace]:
        return self._traces()[index]

    def _traces(self) -> Sequence[Trace]:
        if self._make is not None:
            self._made = self._make()
            self._make = None  # with the records, whose tensors are in the traces now
        return self._made


def assemble_later(
    runs: list[list[CallRecord]], form: WeightsForm, info: BlockInfo
) -> Sequence[Trace]:
    """`assemble`, most of it when the traces are first read; what the caller did wrong fails now.

    Records are stacked for every trace that is read, and many blocks are watched without reading.
    """
    if not runs or info.labels is not None:
        return assemble(runs, form, info)
    for run in runs:
        _check_heads(run[0])
    return PendingTraces(partial(assemble, runs, form, info))


def assemble(runs: list[list[CallRecord]], form: WeightsForm, info: BlockInfo) -> Sequence[Trace]:
    """One trace for each example of the batch, or for each hypothesis of a beam search."""
    if not runs and info.gaps:
        return [Trace({}, (), info.gaps)]
    if not runs:
        raise InputError(
            "no attention was seen: looked for scaled_dot_product_attention, "
            "multi_head_attention_forward, regard.attend, registered taps, and products of two "
            "tensors that go through a softmax into a product; run the model inside the block, "
            "and register_tap what attends by other means"
        )
    runs, unassigned = assign_parts(runs, info.model_calls)
    runs, unread = tell_slots_apart(runs)
    info = replace(info, gaps=(*info.gaps, *unassigned, *unread))
    if not runs:
        return [Trace({}, (), info.gaps)]
    runs = classify_runs(runs)
    labelled = None if info.labels is None else info.labels.rows
    if labelled is not None:  # by step
        runs = [split_steps(run) for run in runs]
    rows = find_trace_rows(runs, labelled)
    calls = [stack_run(*pair) for pair in zip(runs, rows, strict=True)]
    for call in calls:
        _check_heads(call.record)
    traces = len(rows[0][0])
    sites = _number_sites(calls, traces)
    assembly = Assembly(calls, sites, find_streams(calls), form, info)
    return LazyTraces(traces, assembly.trace)


def _check_heads(record: CallRecord) -> None:
    """Refuse chosen heads that do not exist, now rather than when the map is made."""
    heads = record.sizes[1]
    wrong = [head for head in record.heads or () if not 0 <= head < heads]
    if wrong:
        raise InputError(
            f"expected some of the heads 0 to {heads - 1} of {record.site!r}, got {wrong}"
        )


def _number_sites(calls: list[StackedCall], traces: int) -> list[dict[int, str]]:
    """The unique name of each call in each trace: a second run at a site is called path#1.

    In a loop over examples, or over the pictures of all examples, only the runs of the trace itself
    are counted, so that they are named as if its example had run alone.
    """
    counts, names = Counter[tuple[str, int]](), list[dict[int, str]]()
    for call in calls:
        site = call.record.site
        own = [n for n in range(traces) if not call.in_loop or call.parts_of(n)]
        names.append({n: f"{site}#{k}" if (k := counts[site, n]) else site for n in own})
        counts.update((site, n) for n in own)
    return names


@dataclass(frozen=True, eq=False)
class Assembly:
    """The stacked calls of a block and their streams, from which single traces are cut."""

    calls: list[StackedCall]
    sites: list[dict[int, str]]  # for each call, its name in each trace
    streams: Streams
    form: WeightsForm
    info: BlockInfo

    def trace(self, number: int) -> Trace:
        """The trace of one example, or of one hypothesis."""
        count = len(self.calls[0].rows)
        tokens = label_tokens(self.streams.values(), number, count, self.info)
        maps = tuple(
            attention_map
            for call, sites in zip(self.calls, self.sites, strict=True)
            for row, site in _name_parts(call.parts_of(number), sites.get(number, ""))
            if (attention_map := self._make_map(number, call, row, site, tokens)) is not None
        )
        return Trace(tokens, maps, self.info.gaps)

    def _make_map(
        self,
        number: int,
        call: StackedCall,
        row: int,
        site: str,
        tokens: Mapping[str, Tokens],
    ) -> AttentionMap | None:
        """The map of one trace in one row of a call, without padding; None if nothing is left."""
        record = call.record
        row_stream, column_stream = (self.streams[key] for key in stream_keys(record))
        _, _, queries, keys = record.sizes
        real, columns = row_stream.real[number], column_stream.real[number]
        assert real is not None
        assert columns is not None
        cached = row_stream.length - queries  # tokens that were read before this call
        rows = range(max(0, real.start - cached), real.stop - cached)
        if not rows or not columns:
            return None
        row_tokens = tuple(place + cached - real.start for place in rows)
        part = Part(row, rows, columns)
        is_whole = (len(rows), len(columns)) == (queries, keys)
        observation = record.observation
        atlas = None if observation is None or not is_whole else observation.atlas
        # with one token more than rows, each row of a cross map has produced the next token
        has_produced = not record.is_self_attention and len(tokens[row_stream.name]) > len(real)
        attention_map = AttentionMap(
            site,
            record.kind,
            Axis(row_stream.name, row_tokens),
            Axis(column_stream.name, tuple(column - columns.start for column in columns)),
            _cut_source(record, part, "windows" if record.edits else self.form),
            _cut_statistics(record, part),
            _cut_top(record, part),
            _cut_atlas(atlas, part.example),
            Axis(row_stream.name, tuple(place + 1 for place in row_tokens))
            if has_produced
            else None,
        )
        return add_extras(attention_map, record, part, self.form)


def _name_parts(parts: list[InnerPart], site: str) -> list[tuple[int, str]]:
    """The row of each part, and its name: path@0, path@1 if there are several."""
    if len(parts) == 1:
        return [(parts[0].row, site)]
    return [(part.row, f"{site}@{number}") for number, part in enumerate(parts)]


def _cut_source(
    record: CallRecord, part: Part, form: WeightsForm
) -> RecomputableWeights | DenseWeights | SummaryOnly:
    """The weights of one example, in the form that the caller keeps."""
    sizes = (record.sizes[1], len(part.rows), len(part.columns))
    if form == "summary":
        return SummaryOnly(sizes)
    if record.weights is not None:
        return DenseWeights(part.of(record.weights)[0].clone())
    assert record.scoring is not None
    assert record.observation is not None
    rows, columns = (slice(side.start, side.stop) for side in (part.rows, part.columns))
    recomputable = RecomputableWeights(
        record.query[part.example, :, rows],
        record.key[part.example, :, columns],
        record.observation.lse[part.example, :, rows],
        _cut_scoring(record.scoring, part),
        record.exact,
    )
    if form == "windows":
        return recomputable
    return DenseWeights(_weights_of(recomputable))


def _weights_of(
    source: RecomputableWeights | DenseWeights | SummaryOnly,
) -> Float[Tensor, "head query key"]:
    """The weights of all heads of a source, by way of a map without tokens."""
    heads, queries, keys = source.sizes
    unnamed = AttentionMap("", "encoder", Axis("", (0,) * queries), Axis("", (0,) * keys), source)
    return torch.stack([unnamed.weights(head) for head in range(heads)])


def _cut_scoring(scoring: Scoring, part: Part) -> Scoring:
    """The scoring of one example's rows and columns."""
    mask = (scoring.mask or everything()).within(part)
    bias = None if scoring.bias is None else scoring.bias.within(part)
    return replace(scoring, mask=mask, bias=bias, offset=scoring.offset + part.moved)


def _cut_statistics(record: CallRecord, part: Part) -> Statistics | None:
    """The statistics of one example's rows, with keys counted from its first column.

    Where padding comes before it, the weight on the first key is computed again.
    """
    statistics = None if record.observation is None else record.observation.statistics
    if statistics is None:
        return None
    rows = slice(part.rows.start, part.rows.stop)
    statistics = Statistics(
        *(column[part.example, :, rows] for column in vars(statistics).values())
    )
    if part.columns.start == 0:
        return statistics
    first_column = replace(part, columns=part.columns[:1])
    on_first = _weights_of(_cut_source(record, first_column, "windows"))[:, :, 0]
    largest_key = shift_keys(statistics.largest_key, part.columns)
    return replace(statistics, largest_key=largest_key, on_first=on_first.to(statistics.on_first))


def _cut_top(record: CallRecord, part: Part) -> Top | None:
    """The largest weights of one example's rows, with keys counted from its first column."""
    top = None if record.observation is None else record.observation.top
    if top is None:
        return None
    rows = slice(part.rows.start, part.rows.stop)
    keys = shift_keys(top.keys[part.example, :, rows], part.columns)
    return Top(top.weights[part.example, :, rows], keys)


def _cut_atlas(atlas: Atlas | None, example: int) -> Atlas | None:
    """The atlas of one example."""
    if atlas is None:
        return None
    return replace(atlas, mean=atlas.mean[example], largest=atlas.largest[example])
