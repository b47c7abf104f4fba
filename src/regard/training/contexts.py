"""What surrounds the steps: signals that are noted, and a model that is compiled for a while."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from torch import nn


@contextmanager
def compiled(model: nn.Module, *, wanted: bool) -> Iterator[None]:
    """While it lasts, what a loss reads of the model goes through torch.compile.

    The module itself stays as it is, and with it the names of its weights.
    """
    if not wanted:
        yield
        return
    name = "features" if hasattr(model, "features") else "forward"
    setattr(model, name, torch.compile(getattr(model, name), dynamic=True))
    try:
        yield
    finally:
        delattr(model, name)


@contextmanager
def deferred_interrupts(asked: list[int]) -> Iterator[None]:
    """Note Ctrl-C and SIGTERM instead of ending at once; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
