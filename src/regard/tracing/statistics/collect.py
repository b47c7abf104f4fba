"""`collect_statistics`: a block, like `watch`, that reduces a batch to statistics of its heads."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from regard.errors import InputError
from regard.kernels.observe import ObserveOptions
from regard.tracing.assembly.beam_rows import find_trace_rows
from regard.tracing.assembly.decoding_runs import DecodingRuns
from regard.tracing.assembly.stacking import StackedCall, stack_run
from regard.tracing.assembly.streams import stream_keys
from regard.tracing.open_watchers import watching
from regard.tracing.recording.options import Keep, WatchOptions
from regard.tracing.recording.record import CallRecord
from regard.tracing.statistics.moments import Moments
from regard.tracing.statistics.numbers import LAST, MEASURES, example_numbers
from regard.tracing.statistics.rows import SiteRows
from regard.tracing.statistics.streams import (
    KindIndices,
    find_streams_by_length,
    find_streams_of_stacks,
)
from regard.types import Gap
from regard.types.maps import MapKind

STATISTICS = WatchOptions(ObserveOptions(atlas=0), keep=Keep("summary"))


@dataclass(frozen=True, eq=False)
class SiteStatistics:
    """Moments over examples of each measure of each head of one site.

    The number of an example is a mean over its rows, as in `measures.head_numbers`, so that each
    example counts once, whatever its length. `rows` is the number of rows of all examples.
    """

    kind: MapKind
    examples: int
    rows: int
    moments: Moments

    def __add__(self, other: "SiteStatistics") -> "SiteStatistics":
        ours, theirs = self.moments.mean.shape, other.moments.mean.shape
        if (self.kind, ours) != (other.kind, theirs):
            raise InputError(
                f"expected tallies of one site to merge, got {self.kind} attention of {ours[1]} "
                f"heads and {ours[0]} measures, and {other.kind} attention of {theirs[1]} heads "
                f"and {theirs[0]} measures"
            )
        return SiteStatistics(
            self.kind,
            self.examples + other.examples,
            self.rows + other.rows,
            self.moments + other.moments,
        )


class BatchStatistics:
    """The statistics of each site, complete when the block has ended, and the gaps."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.measures = (*MEASURES, *filter(None, kinds), LAST)
        self.sites: dict[str, SiteStatistics] = {}
        self.gaps: tuple[Gap, ...] = ()
        self._kinds = tuple(kinds)
        self._stream_kinds: dict[str, KindIndices] = {}  # by the name of the stream
        self._calls = Counter[str]()  # how often each site has attended so far

    def set_kinds(self, kinds: Mapping[str, KindIndices]) -> None:
        """Set the kind of each token of each stream.

        Kinds are indices into the names of token kinds; the index after the last is padding. If
        they are set before the model runs, its calls can be reduced at once and need not be kept.
        """
        self._stream_kinds = dict(kinds)

    def add_call(self, call: CallRecord) -> bool:
        """Add a call at once if the kinds of its tokens are known; False if they are not."""
        sides = find_streams_by_length(call, self._stream_kinds, len(self._kinds))
        if sides is None:
            return False
        batch, _, queries, _ = call.sizes
        self._add_rows(SiteRows(StackedCall(call, range(batch), [queries] * batch), *sides))
        return True

    def add_runs(self, runs: list[list[CallRecord]], gaps: Sequence[Gap]) -> None:
        """Add the calls that had to wait until the whole batch had run."""
        self.gaps = tuple(gaps)
        if not runs:
            return
        trace_rows = find_trace_rows(runs)
        stacks = [stack_run(*pair) for pair in zip(runs, trace_rows, strict=True)]
        sides = find_streams_of_stacks(stacks, self._stream_kinds, len(self._kinds))
        for stack in stacks:
            row_tokens, column_tokens = (sides[key] for key in stream_keys(stack.record))
            self._add_rows(SiteRows(stack, row_tokens, column_tokens))

    def _add_rows(self, rows: SiteRows) -> None:
        """Add the rows of a site; if the site attends a second time, it is called path#1."""
        site = rows.call.site
        earlier_calls = self._calls[site]
        self._calls[site] += 1
        numbers = example_numbers(rows, self._kinds)
        values = torch.stack([numbers[name] for name in self.measures], dim=1)
        attended = rows.live.any(dim=1)
        examples, count = int(attended.any(dim=1).sum()), int(attended.sum())
        site_statistics = SiteStatistics(rows.call.kind, examples, count, Moments.of(values))
        self.sites[f"{site}#{earlier_calls}" if earlier_calls else site] = site_statistics


class StatisticsCalls(DecodingRuns):
    """Adds each call to the statistics at once if its tokens are known, and keeps it otherwise.

    If queries and keys are not kept, the model reuses their memory, which is faster than asking the
    system for more.
    """

    takes_steps = False

    def __init__(self, statistics: BatchStatistics) -> None:
        super().__init__()
        self._statistics = statistics

    def add(self, call: CallRecord) -> None:
        """Add the call to the statistics, or keep it until the whole batch has run."""
        if not self._statistics.add_call(call):
            super().add(call)


@contextmanager
def collect_statistics(model: nn.Module, kinds: Sequence[str] = ()) -> Iterator[BatchStatistics]:
    """Collect statistics of every head while a model runs a batch, without making traces.

    >>> import torch
    >>> from regard.tracing.statistics.collect import collect_statistics
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.randn(3, 5, 8)
    >>> with torch.no_grad(), collect_statistics(attention) as statistics:
    ...     _ = attention(x, x, x, need_weights=False)
    >>> statistics.sites["MultiheadAttention"].rows
    15
    """
    statistics = BatchStatistics(kinds)
    with watching(model, STATISTICS) as watcher:
        watcher.runs = StatisticsCalls(statistics)
        yield statistics
    # Watcher and sites refer to each other. The calls are taken out of this cycle, so that their
    # memory is freed now and not at the next garbage collection.
    runs, watcher.runs = watcher.complete_runs, DecodingRuns()
    statistics.add_runs(runs, watcher.tracker.gaps)
