"""Compares one run of one model: plain, watched and beside, against an independent record.

::

    comparison = compare(model, lambda: model(**inputs), batch=2)
    comparison.verdict       # "exact"

`run` has to give the same numbers each time (seed what it draws). A verdict is, worst first, a
crash, changed outputs, a silent miss, silent mixing of positions, a wrong number of traces, inexact
(all weights are there, but not all where they belong: tokens dropped, examples, heads or keys in
other places, decoding steps that do not stack, another kind of attention), a refusal ("no attention
was seen" of a model that mixes positions by other means, such as a state space model), a named gap,
exact, or no attention.
"""

import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import regard
from bench.architectures.matching import (
    MapIndex,
    cut_numbers,
    find_displaced,
    has_more_rows,
    is_cut_at_borders,
    is_sampled,
    leaves_out_hidden_keys,
    leaves_out_padding,
)
from bench.architectures.mixing import Mixing, find_mixing
from bench.architectures.recorder import RecordedCall, Recorder
from bench.architectures.tensors import difference
from regard.errors import InputError
from regard.tracing.failures import raise_failures
from regard.types import Trace

__all__ = ["VERDICTS", "Comparison", "compare", "describe_error", "is_covered"]

Run = Callable[[], Any]

# worst first
VERDICTS = (
    "crash",
    "outputs changed",
    "silent miss",
    "silent mixing",
    "wrong trace count",
    "inexact",
    "refused",
    "named gap",
    "exact",
    "no attention",
)
FAILURE = "regard failed"  # how the reason of a gap begins that hides an error of regard
CHANGED = 1e-4  # a relative difference of outputs above this is no rounding of float32


@dataclass
class Comparison:
    """What the comparison of one run showed.

    `noise` is the difference of two plain runs; `watched` and `beside` are the differences of
    watched runs from a plain one. `recorded` counts the attention of the independent record.
    `missed` describes recorded attention that is in no map, and `gap_missed` the part of it that a
    gap covers. `mixing` lists modules that mix positions without a map or a gap, and `inexact` what
    is not where it belongs. `notes` do not change the verdict.
    """

    batch: int
    noise: float = 0.0
    watched: float = 0.0
    beside: float = 0.0
    recorded: int = 0
    maps: int = 0
    traces: int | None = None
    gaps: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    gap_missed: list[str] = field(default_factory=list)
    mixing: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    inexact: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst that the comparison showed."""
        limit = max(CHANGED, 10 * self.noise)
        signs = {
            "crash": self.errors,
            "outputs changed": self.watched > limit or self.beside > self.noise,
            "silent miss": self.missed,
            "silent mixing": self.mixing and (self.maps or self.gaps),
            "wrong trace count": self.maps and self.traces not in (None, self.batch),
            "inexact": self.inexact,
            "refused": self.mixing,
            "named gap": self.gaps,
            "exact": self.recorded or self.maps,
        }
        return next((verdict for verdict, sign in signs.items() if sign), "no attention")


def compare(model: nn.Module, run: Run, batch: int, *, perturb: Run | None = None) -> Comparison:
    """Compare a run of a model, plain and watched.

    With `perturb`, a run that shares no state (such as a cache) between calls, unseen mixing of
    positions is looked for too.
    """
    comparison = Comparison(batch)
    with torch.no_grad():
        plain = run()
        comparison.noise = difference(plain, run())
        with Recorder(model) as recorder:
            run()
        comparison.recorded = len(recorder.calls)
        traces = _watch(model, run, plain, comparison)
        _watch_beside(model, run, plain, comparison)
    if traces is not None:
        describe_traces(traces, comparison)
        mixing = _look_for_mixing(model, perturb, traces, comparison)
        calls = [call for call in recorder.calls if not mixing.still & {call.site}]
        comparison.recorded = len(calls)
        look_for_calls(calls, traces, comparison)
        if perturb is not None:
            _note_needless_gaps(calls, traces, mixing, comparison)
    return comparison


def _note_needless_gaps(
    calls: list[RecordedCall], traces: list[Trace], mixing: Mixing, comparison: Comparison
) -> None:
    """Note gaps at modules in which nothing was recorded and nothing mixes positions by content."""
    sites = {site for call in calls for site in (call.site, call.product_site)} | mixing.attending
    gaps = {gap.site for trace in traces for gap in trace.gaps}
    for gap in sorted(gaps):
        if not any(is_covered(site, [gap]) for site in sites):
            comparison.notes.append(f"needless gap: {gap}")


def _look_for_mixing(
    model: nn.Module, run: Run | None, traces: list[Trace], comparison: Comparison
) -> Mixing:
    """Change single positions, and note the modules that mix them unseen."""
    if run is None:
        return Mixing()
    maps = {attention_map.site for trace in traces for attention_map in trace.maps}
    gaps = {gap.site for trace in traces for gap in trace.gaps}
    try:
        mixing = find_mixing(model, run, maps, gaps)
    except Exception as error:  # a failure of the survey, not of what it surveys
        comparison.notes.append(f"mixing was not looked for: {describe_error(error)}")
        return Mixing()
    comparison.mixing = mixing.unseen
    return mixing


def _watch(model: nn.Module, run: Run, plain: Any, comparison: Comparison) -> list[Trace] | None:
    """The traces of a watched run, none if nothing attended; None after an error."""
    output = None
    try:
        with raise_failures(), regard.watch(model) as seen:  # a fault of ours is a crash here
            output = run()
        traces = list(seen)
        comparison.traces = len(traces)
    except InputError as error:
        if "no attention was seen" not in str(error):
            comparison.errors.append(describe_error(error))
            return None
        traces = []
    except Exception as error:
        comparison.errors.append(describe_error(error))
        return None
    comparison.watched = difference(plain, output)
    return traces


def _watch_beside(model: nn.Module, run: Run, plain: Any, comparison: Comparison) -> None:
    """Compare the outputs of a run that is observed beside itself."""
    output = None
    try:
        with suppress_no_attention(), regard.watch(model, beside=True):
            output = run()
        comparison.beside = difference(plain, output)
    except Exception as error:
        comparison.errors.append(f"beside: {describe_error(error)}")


class suppress_no_attention(suppress):  # noqa: N801
    """Suppress the error that says that nothing attended."""

    def __init__(self) -> None:
        super().__init__(InputError)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        """True for that error alone."""
        return isinstance(error, InputError) and "no attention was seen" in str(error)


def describe_traces(traces: Iterable[Trace], comparison: Comparison) -> None:
    """Note the maps and gaps of traces; a gap because regard itself failed is an error."""
    traces = list(traces)
    comparison.maps = sum(len(trace.maps) for trace in traces)
    gaps = {gap for trace in traces for gap in trace.gaps}
    failed = {gap for gap in gaps if gap.reason.startswith(FAILURE)}
    comparison.gaps = sorted(f"{gap.site}: {gap.reason}" for gap in gaps - failed)
    comparison.errors += sorted(f"{gap.site}: {gap.reason}" for gap in failed)


def look_for_calls(
    calls: Iterable[RecordedCall], traces: Iterable[Trace], comparison: Comparison
) -> None:
    """Note the recorded calls that are in no map, apart by whether a gap covers them."""
    traces = list(traces)
    index = MapIndex(traces)
    gaps = {gap.site for trace in traces for gap in trace.gaps}
    for call in calls:
        missing = 0 if is_sampled(call, traces) else index.count_missing(call)
        forms = (
            *(has_more_rows, is_cut_at_borders),
            *(leaves_out_padding, leaves_out_hidden_keys),
        )
        if missing and not any(is_found(call, traces) for is_found in forms):
            shape = "x".join(map(str, call.weights.shape))
            text = f"{call.site}: {call.operation} {shape}, {missing} missing"
            sites = (call.site, call.product_site)
            covered = any(is_covered(site, gaps) for site in sites)
            (comparison.gap_missed if covered else comparison.missed).append(text)
        elif displaced := find_displaced(call, traces, comparison.batch):
            comparison.inexact.append(f"{call.site}: {displaced}")


def is_covered(site: str, gaps: Iterable[str]) -> bool:
    """True if a gap is at a site, at a module around it, or inside it."""
    plain = [cut_numbers(gap) for gap in gaps]
    return any(
        site == gap or site.startswith(f"{gap}.") or gap.startswith(f"{site}.") for gap in plain
    )


def describe_error(error: Exception) -> str:
    """An error in one line, with the innermost place in regard that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/regard/" in frame.filename] or list(frames)
    place = f"{own[-1].filename.rpartition('/src/')[2]}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:250]}"
