"""`watch`: a block around a running model, after which there is a trace for each example."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import overload

from torch import nn

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.kernels.observe import ObserveOptions
from regard.tracing.assembly.token_labels import BlockInfo, TokenLabels
from regard.tracing.assembly.traces import assemble_later
from regard.tracing.open_watchers import watching
from regard.tracing.parallel_heads.join import decline_after_error, join_parallel_heads
from regard.tracing.recording.editor import Editor
from regard.tracing.recording.edits import EditFunction
from regard.tracing.recording.options import Keep, WatchOptions, WeightsForm
from regard.tracing.recording.site_choice import SiteChoice, SitePatterns
from regard.types import Trace


class Watched(Sequence[Trace]):
    """One trace for each example of the batch; there when the block of `watch` has ended."""

    def __init__(self) -> None:
        self._traces: Sequence[Trace] | None = None
        self.labels: TokenLabels | None = None

    def set_labels(self, labels: TokenLabels) -> None:
        """Set tokens and rows of hypotheses, which only the caller knows, before the block ends."""
        self.labels = labels

    def set_traces(self, traces: Sequence[Trace]) -> None:
        """Set the traces; `watch` calls this when its block has ended."""
        self._traces = traces

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | Sequence[Trace]:
        return self._finished_traces()[index]

    def __len__(self) -> int:
        return len(self._finished_traces())

    def _finished_traces(self) -> Sequence[Trace]:
        if self._traces is None:
            raise InputError("the traces are ready when the block of `watch` has ended")
        return self._traces

    def __repr__(self) -> str:
        if self._traces is None:
            return "<Watched: not ready before the block ends>"
        return "\n".join(map(repr, self._traces))


@check_first_argument
@contextmanager
def watch(
    model: nn.Module,
    *,
    sites: SitePatterns = None,
    keep: WeightsForm | Keep = "windows",
    top: int = 0,
    atlas: int = 512,
    edit: EditFunction | Sequence[EditFunction] | None = None,
    beside: bool = False,
) -> Iterator[Watched]:
    """Record the attention of a model while it runs, without changing its outputs.

    `sites` chooses where: a pattern of module paths such as "*.h.5.*", several, or a mapping from
    patterns to heads; the model runs all other sites as it would without `watch`. `keep` is what
    is stored of each map: "summary" (statistics and atlas), "windows" (queries and keys too, from
    which any weight can be computed again) or "dense" (the weights), or a `Keep` that asks for
    more. `top` keeps that many of the largest weights of each row. `atlas` is the largest number of
    cells on a side of each head's pooled map. `edit` is a function of an `AttentionCall`, or
    several, that may return an `Edit` of it. `beside` runs the model's own operations and observes
    beside them, so that outputs are the same bit for bit.

    >>> import torch, regard
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.randn(1, 5, 8)
    >>> with regard.watch(attention) as seen:
    ...     _ = attention(x, x, x, need_weights=False)
    >>> seen[0]["MultiheadAttention"].shape
    (2, 5, 5)
    """
    if beside and edit is not None:
        raise InputError("beside=True keeps outputs as they are and edit changes them; use one")
    options = WatchOptions(
        ObserveOptions(top=top, atlas=atlas),
        SiteChoice.of(sites),
        Keep.of(keep),
        Editor(edit),
        beside,
    )
    watched = Watched()
    with watching(model, options) as watcher, decline_after_error(watcher.runs.runs):
        yield watched
    runs, missing_heads = join_parallel_heads(watcher.complete_runs)
    tracker = watcher.tracker
    gaps = (*tracker.gaps, *missing_heads)
    info = BlockInfo(watched.labels, tracker.grids, gaps, tracker.facts.calls)
    if watcher.attended:
        options.sites.check(watcher.attended)
        options.editor.check_sites(watcher.attended)
    if watcher.attended and not runs and not info.gaps:  # of no examples, or no tokens
        watched.set_traces([Trace({}, ())] * watcher.sites.batch)
    else:
        watched.set_traces(assemble_later(runs, options.keep.weights, info))
