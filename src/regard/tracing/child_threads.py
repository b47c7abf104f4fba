"""Threads that a watched model starts: they inherit the watchers of the thread that starts them.

torch's function modes belong to one thread. A model that runs two branches in threads, or hands
them to a pool, would attend unseen. While a block is open, `threading.Thread.start` and
`ThreadPoolExecutor.submit` are replaced. Where a watched model calls them, what runs in the other
thread is put inside a context that `open_watchers` gives; anywhere else they do what they did.

    model's thread:   forward -> Thread.start() -> carry() gives a context
    new thread:       with context: run()       -> its calls are seen, under the same watcher
"""

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any

# called in the thread that starts another one: the context for what runs there, None for no context
Carry = Callable[[], AbstractContextManager[None] | None]


class _ThreadPatches:
    """Counts the open blocks; the first replaces the two functions, the last puts them back."""

    def __init__(self) -> None:
        self._lock, self._blocks, self._undo = threading.Lock(), 0, ExitStack()

    def begin(self, carry: Carry) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._replace(
                    threading.Thread, "start", _carry_into_thread(threading.Thread.start, carry)
                )
                submit = _carry_into_pool(ThreadPoolExecutor.submit, carry)
                self._replace(ThreadPoolExecutor, "submit", submit)

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._undo.close()

    def _replace(self, owner: Any, name: str, stand_in: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        setattr(owner, name, stand_in)

        def undo() -> None:
            if getattr(owner, name) is stand_in:  # otherwise other code has replaced it since
                setattr(owner, name, original)

        self._undo.callback(undo)


_PATCHES = _ThreadPatches()


@contextmanager
def follow_into_threads(carry: Carry) -> Iterator[None]:
    """Let threads that are started while the block runs enter the context that `carry` gives."""
    _PATCHES.begin(carry)
    try:
        yield
    finally:
        _PATCHES.end()


def _carry_into_thread(start: Callable[..., None], carry: Carry) -> Callable[..., None]:
    """`Thread.start`, after which the thread runs inside the context."""

    @wraps(start)
    def start_inside(thread: threading.Thread) -> None:
        # a worker of a pool outlives the call: what it is handed is followed instead
        is_worker = getattr(thread, "_target", None) is futures.thread._worker
        context = None if is_worker else carry()
        if context is not None:
            run = thread.run

            def run_inside() -> None:
                del thread.run  # it would keep the thread alive in a cycle
                with context:
                    run()

            thread.run = run_inside  # type: ignore[method-assign]
        start(thread)

    return start_inside


def _carry_into_pool(submit: Callable[..., Any], carry: Carry) -> Callable[..., Any]:
    """`ThreadPoolExecutor.submit`, after which the function runs inside the context."""

    @wraps(submit)
    def submit_inside(
        pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        context = carry()
        if context is None:
            return submit(pool, function, *args, **kwargs)

        def run_inside() -> Any:
            with context:
                return function(*args, **kwargs)

        return submit(pool, run_inside)

    return submit_inside
