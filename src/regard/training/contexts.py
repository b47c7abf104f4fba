"""Context managers around the training loop: deferred interrupts, and torch.compile."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from torch import nn


@contextmanager
def compiled_model(model: nn.Module, *, enabled: bool) -> Iterator[None]:
    """Inside the block, the method that the loss calls goes through torch.compile.

    The module itself is not replaced, so that the names of its weights stay.
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
    """Append Ctrl-C and SIGTERM to `signals` instead of raising; a second one raises at once.

    The loop looks at the list after each step, saves a checkpoint and ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def record(number: int, frame: FrameType | None) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    before = {kind: signal.signal(kind, record) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
