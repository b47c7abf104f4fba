"""Gradient checkpointing: a forward that torch runs again while it goes backward."""

from dataclasses import replace

import torch
from torch import Tensor

from regard.kernels.observe.taps import Tapped
from regard.tracing.dataflow.origins import mark_of, put
from regard.tracing.recording.watch_options import WatchOptions


def is_backward() -> bool:
    """Whether gradients are being computed: what runs now was seen before."""
    found: int = torch._C._current_graph_task_id()
    return found != -1


def settled(wishes: WatchOptions, tapped: Tapped) -> tuple[WatchOptions, Tapped]:
    """How to look at a call that may be run again, unwatched: beside it, from outside its graph.

    A checkpoint compares what both runs save for the gradient, so they must save the same.
    """
    again = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
    if not again or wishes.editor:
        return wishes, tapped
    query, key, value = map(_outside, (tapped.query, tapped.key, tapped.value))
    return replace(wishes, beside=True), replace(tapped, query=query, key=key, value=value)


def _outside(side: Tensor) -> Tensor:
    found = side.detach()
    put(found, mark_of(side))
    return found
