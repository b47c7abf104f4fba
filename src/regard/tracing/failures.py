"""The net under the watcher: where regard itself fails, the model runs on, and the site is a gap.

Describing, observing and following a call is our work, not the model's. An error in it is a fault
of regard, and must not end a run that would have gone well without it. So the watcher catches it,
lets the model's own function run, and notes a gap whose reason begins with `FAILURE`. Errors of
the model's own functions pass through as they are, once.

Our own faults stay visible where they are looked for: inside `raise_failures()` they are raised.
All tests run in it. So does a block with edits, where a call that runs unedited would be wrong.

    >>> from regard.tracing.failures import describe_failure
    >>> describe_failure(ValueError("no axis"))
    'regard failed to read it (ValueError: no axis), so it ran unobserved; report this as a bug'
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FAILURE = "regard failed to read it"
_LONGEST = 200  # characters of an error that a gap quotes


class _Policy:
    """Whether our own errors are raised; counted, because blocks may be nested."""

    raising = 0


@contextmanager
def raise_failures() -> Iterator[None]:
    """Raise errors of regard's own while the block runs, in all threads."""
    _Policy.raising += 1
    try:
        yield
    finally:
        _Policy.raising -= 1


def are_raised() -> bool:
    """True inside `raise_failures`."""
    return _Policy.raising > 0


def describe_failure(error: Exception) -> str:
    """The reason of the gap that an error of regard's own leaves."""
    lines = str(error).strip().splitlines() or [""]
    quoted = f"{type(error).__name__}: {lines[0]}"[:_LONGEST]
    return f"{FAILURE} ({quoted}), so it ran unobserved; report this as a bug"


class OriginalRun:
    """The model's own function with its arguments: run at most once, and its result kept.

    `error` is what the function raised itself, which is no failure of ours.
    """

    __slots__ = ("_arguments", "_function", "_has_run", "_result", "error")

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._function, self._arguments = function, (args, kwargs)
        self._has_run, self._result = False, None
        self.error: BaseException | None = None

    def __call__(self) -> Any:
        """The result of the function."""
        if not self._has_run:
            args, kwargs = self._arguments
            try:
                self._result = self._function(*args, **kwargs)
            except BaseException as error:
                self.error = error
                raise
            self._has_run = True
        return self._result
