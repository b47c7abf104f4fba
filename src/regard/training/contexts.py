"""Context managers around the training loop: deferred interrupts, and torch.compile."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from torch import nn

_SECONDS = 1.0  # within which two signals are the same interruption


@contextmanager
def compiled_model(model: nn.Module, *, enabled: bool) -> Iterator[None]:
    """Inside the block, the method of the model that the loss calls is compiled by torch.compile.

    torch.compile(model) would wrap the module and change the names of its weights in checkpoints.
    """
    if not enabled:
        yield
        return
    name = "features" if hasattr(model, "features") else "forward"
    setattr(model, name, torch.compile(getattr(model, name), dynamic=True))
    try:
        yield
    finally:
        delattr(model, name)


@contextmanager
def deferred_interrupts(signals: list[int]) -> Iterator[None]:
    """Append Ctrl-C and SIGTERM to `signals` instead of raising; a later second one raises at once.

    The training loop reads the list after each step, saves a checkpoint and ends. Under torchrun
    one Ctrl-C arrives twice within a moment: from the terminal, and from torchrun.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python sets signal handlers in the main thread only
        return

    first = math.inf

    def record(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if signals and time.monotonic() - first > _SECONDS:
            raise KeyboardInterrupt
        first = min(first, time.monotonic())
        signals.append(number)

    before = {kind: signal.signal(kind, record) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
