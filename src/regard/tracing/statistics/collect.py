"""`tally`: a block around a model that runs a batch, and what its heads did over all examples."""

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
from regard.tracing.recording.options import Keep, WatchOptions
from regard.tracing.recording.record import CallRecord
from regard.tracing.statistics.moments import Moments
from regard.tracing.statistics.numbers import LAST, MEASURES, example_numbers
from regard.tracing.statistics.rows import Rows
from regard.tracing.statistics.streams import TokenKinds, sides_of, told_sides
from regard.tracing.watcher import watching
from regard.types import Gap
from regard.types.maps import MapKind

STATISTICS = WatchOptions(ObserveOptions(atlas=0), keep=Keep("summary"))


@dataclass(frozen=True, eq=False)
class Tally:
    """What the heads of one site did: moments over examples of each measure, in their order.

    An example's number is a mean over its rows, as in `measures.head_numbers`, so that each example
    counts once, whatever its length. `rows` is how many rows there were in all.
    """

    kind: MapKind
    examples: int
    rows: int
    moments: Moments

    def __add__(self, other: "Tally") -> "Tally":
        ours, theirs = self.moments.mean.shape, other.moments.mean.shape
        if (self.kind, ours) != (other.kind, theirs):
            raise InputError(
                f"expected tallies of one site to merge, got {self.kind} attention of {ours[1]} "
                f"heads and {ours[0]} measures, and {other.kind} attention of {theirs[1]} heads "
                f"and {theirs[0]} measures"
            )
        return Tally(
            self.kind,
            self.examples + other.examples,
            self.rows + other.rows,
            self.moments + other.moments,
        )


class Tallied:
    """The tallies of each site, there when the block has ended, and what could not be seen."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.measures = (*MEASURES, *filter(None, kinds), LAST)
        self.sites: dict[str, Tally] = {}
        self.gaps: tuple[Gap, ...] = ()
        self._kinds, self._told = tuple(kinds), dict[str, TokenKinds]()
        self._again = Counter[str]()

    def tell(self, kinds: Mapping[str, TokenKinds]) -> None:
        """Say of what kind each token of each stream is; best before the model runs.

        The kinds are numbers, in the order of their measures; the one after the last is padding.
        """
        self._told = dict(kinds)

    def take(self, call: CallRecord) -> bool:
        """Sum up a call at once, if all that it takes was told."""
        sides = told_sides(call, self._told, len(self._kinds))
        if sides is None:
            return False
        batch, _, queries, _ = call.sizes
        self._put(Rows(StackedCall(call, range(batch), [queries] * batch), *sides))
        return True

    def fill(self, runs: list[list[CallRecord]], gaps: Sequence[Gap]) -> None:
        """Sum up the calls that were kept until all had been seen."""
        self.gaps = tuple(gaps)
        if not runs:
            return
        stacks = [stack_run(*each) for each in zip(runs, find_trace_rows(runs), strict=True)]
        sides = sides_of(stacks, self._told, len(self._kinds))
        for each in stacks:
            above, across = (sides[key] for key in stream_keys(each.record))
            self._put(Rows(each, above, across))

    def _put(self, rows: Rows) -> None:
        """Sum up the rows of a site; one that attends again is path#1."""
        site = rows.call.site
        again, self._again[site] = self._again[site], self._again[site] + 1
        found = example_numbers(rows, self._kinds)
        values = torch.stack([found[name] for name in self.measures], dim=1)
        attended = rows.live.any(dim=1)
        examples, count = int(attended.any(dim=1).sum()), int(attended.sum())
        tally = Tally(rows.call.kind, examples, count, Moments.of(values))
        self.sites[f"{site}#{again}" if again else site] = tally


class Calls(DecodingRuns):
    """Calls as they come: summed up at once where all is known of their tokens, else kept.

    Queries and keys that nobody keeps are memory that the model uses again; to ask the system for
    more takes longer than to sum up.
    """

    def __init__(self, tallied: Tallied) -> None:
        super().__init__()
        self._tallied = tallied

    def add(self, call: CallRecord) -> None:
        """Sum the call up, or put it under those that it continues."""
        if not self._tallied.take(call):
            super().add(call)


@contextmanager
def tally(model: nn.Module, kinds: Sequence[str] = ()) -> Iterator[Tallied]:
    """Sum up what the heads of a model do while it runs a batch, without a trace of any example.

    >>> import torch
    >>> from regard.tracing.statistics.collect import tally
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.randn(3, 5, 8)
    >>> with torch.no_grad(), tally(attention) as seen:
    ...     _ = attention(x, x, x, need_weights=False)
    >>> seen.sites["MultiheadAttention"].rows
    15
    """
    found = Tallied(kinds)
    with watching(model, STATISTICS) as watcher:
        watcher.runs = Calls(found)
        yield found
    # watcher and sites know each other: what one holds would stay until garbage is collected
    runs, watcher.runs = watcher.runs.runs, DecodingRuns()
    found.fill(runs, watcher.tracker.gaps)
