"""Compiled models run as they were written while they are watched, so that calls can be seen."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import torch


class _Eager:
    """How many watchers want compiled functions to run as they were written.

    The stance of torch's compiler belongs to the process. Watchers in threads do not end in the
    order in which they began: if each put back what it found, the last would leave a stance behind.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.watchers = 0
        self.asked = False
        self.undo = ExitStack()

    def begin(self) -> None:
        with self.lock:
            self.watchers += 1
            if "torch._dynamo" in sys.modules:
                self.ask()
            elif self.watchers == 1:
                self._wait_for_compiling()

    def end(self) -> None:
        with self.lock:
            self.watchers -= 1
            if not self.watchers:
                self.undo.close()
                self.asked = False

    def ask(self) -> None:
        with self.lock:
            if self.watchers and not self.asked:
                self.asked = True
                self.undo.enter_context(torch.compiler.set_stance("force_eager"))

    def _wait_for_compiling(self) -> None:
        own: Any = torch.compile

        def compiled(*args: Any, **settings: Any) -> Any:
            self.ask()
            return own(*args, **settings)

        torch.compile = compiled
        self.undo.callback(setattr, torch, "compile", own)


_EAGER = _Eager()


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled functions as they were written, for a while.

    To ask torch for it loads its compiler, which takes longer than most of what is watched: where
    nothing was compiled before, it is asked only if something is compiled meanwhile.
    """
    _EAGER.begin()
    try:
        yield
    finally:
        _EAGER.end()
