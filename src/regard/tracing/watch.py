"""`watch`: one line around a model that is run, and what it looked at is there afterwards."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import overload

from torch import nn

from regard.errors import InputError
from regard.kernels.observe import ObserveOptions
from regard.tracing.assembly.token_labels import Notes, TokenLabels
from regard.tracing.assembly.traces import assemble
from regard.tracing.block import watching
from regard.tracing.recording.editor import Editor
from regard.tracing.recording.edits import EditFunction
from regard.tracing.recording.options import Form, Keep
from regard.tracing.recording.site_choice import SiteChoice, SitePatterns
from regard.tracing.recording.watch_options import WatchOptions
from regard.types import Trace


class Watched(Sequence[Trace]):
    """One Trace for each example of the batch; filled when the block ends."""

    def __init__(self) -> None:
        self._traces: Sequence[Trace] | None = None
        self.told: TokenLabels | None = None

    def set_labels(self, told: TokenLabels) -> None:
        """Say, before the block ends, what only the caller knows: tokens, and rows that moved."""
        self.told = told

    def fill(self, traces: Sequence[Trace]) -> None:
        """Take what was seen."""
        self._traces = traces

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | Sequence[Trace]:
        return self._ready()[index]

    def __len__(self) -> int:
        return len(self._ready())

    def _ready(self) -> Sequence[Trace]:
        if self._traces is None:
            raise InputError("what was seen is ready when the block of `watch` has ended")
        return self._traces

    def __repr__(self) -> str:
        if self._traces is None:
            return "<Watched: not ready before the block ends>"
        return "\n".join(map(repr, self._traces))


@contextmanager
def watch(
    model: nn.Module,
    *,
    sites: SitePatterns = None,
    keep: Form | Keep = "windows",
    top: int = 0,
    atlas: int = 512,
    edit: EditFunction | Sequence[EditFunction] | None = None,
    beside: bool = False,
) -> Iterator[Watched]:
    """See where a model looks while it runs, without changing what it gives.

    `sites` chooses them by patterns of their paths, "*.h.5.*", and heads by a mapping from
    patterns to them; the model runs the others as it would alone. `keep` is what is stored of each
    map: "summary" (statistics and atlas), "windows" (queries and keys too, from which any weight
    can be computed again) or "dense" (the weights), or a `Keep` that asks for more. `top` keeps
    the largest weights of each row. `edit` is a function of a `Call`, or several, that may give an
    `Edit` of it. `beside` runs the model's own operations and observes beside them, so that
    outputs are the same bit for bit.

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
    wishes = WatchOptions(
        ObserveOptions(top=top, atlas=atlas),
        SiteChoice.of(sites),
        Keep.of(keep),
        Editor(edit),
        beside,
    )
    watched = Watched()
    with watching(model, wishes) as watcher:
        yield watched
    follower = watcher.follower
    # the layer counts all cross maps of the model, so it means nothing among chosen sites
    alignment_layer = find_alignment_layer(model) if sites is None else None
    notes = Notes(watched.told, follower.grids, tuple(follower.gaps), alignment_layer)
    if watcher.attended:
        wishes.choice.check(watcher.attended)
        wishes.editor.check(watcher.attended)
    watched.fill(assemble(watcher.calls.runs, wishes.keep.weights, notes))


def find_alignment_layer(model: nn.Module) -> int | None:
    """Which cross-attention layer shows best what the model aligns; None if its config says none.

    Any model can say it, by an attribute `config.alignment_layer`: a number from 0 that counts its
    cross-attention layers in the order in which they run.
    """
    layer = getattr(getattr(model, "config", None), "alignment_layer", None)
    return layer if isinstance(layer, int) and layer >= 0 else None
