"""Progress on stderr, for work that takes more than a moment: a bar, a line, a count of lines.

Nothing is shown in the first two seconds, so that quick commands print their result alone.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.terminal import clear_line, make_console, overwrite_line, print_line
from regard.text import say

__all__ = ["LineCount", "ProgressBar", "StatusLine", "progress_bar"]

SECONDS_BEFORE_PROGRESS = 2.0
SECONDS_BETWEEN_LINES = 0.5


class ProgressBar:
    """A bar with the number of steps that are done, of how many, and the time that is left."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        columns = (TextColumn("{task.completed:,.0f}/{task.total:,.0f}"), BarColumn())
        console = make_console(stderr=True, quiet=quiet)
        self.progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self.task, self.start = self.progress.add_task("", total=total), monotonic()

    def after(self, before: int) -> Callable[[int], None]:
        """`show` for a part of the work that begins when `before` steps are done."""
        return lambda done: self.show(before + done)

    def show(self, done: int) -> None:
        """Show that this number of steps is done."""
        self.progress.update(self.task, completed=done)
        late = monotonic() - self.start > SECONDS_BEFORE_PROGRESS
        if late and self.progress.console.is_terminal and not self.progress.live.is_started:
            self.progress.start()


@contextmanager
def progress_bar(total: int, *, quiet: bool) -> Iterator[ProgressBar]:
    """A bar that disappears after the block."""
    bar = ProgressBar(total, quiet=quiet)
    try:
        yield bar
    finally:
        if bar.progress.live.is_started:
            bar.progress.stop()


@dataclass
class StatusLine:
    """One line that tells what is being done; each new text overwrites the last. Terminals only."""

    quiet: bool = False
    _start: float = field(default_factory=lambda: monotonic())
    _shown: bool = False

    def show(self, text: str) -> None:
        """Show this text, unless the work began a moment ago."""
        early = monotonic() - self._start < SECONDS_BEFORE_PROGRESS
        if self.quiet or early or not sys.stderr.isatty():
            return
        self._shown = True
        overwrite_line(text)

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            clear_line()


@dataclass
class LineCount:
    """Tells how many lines of a text are done; into a file it writes a line for each report."""

    count: int
    language: str
    quiet: bool = False
    _start: float = field(default_factory=lambda: monotonic())
    _last: float = 0.0

    def show(self, done: int) -> None:
        """Report that this number of lines is done, unless there was a report just before."""
        spent = monotonic() - self._start
        early = spent < SECONDS_BEFORE_PROGRESS or spent - self._last < SECONDS_BETWEEN_LINES
        if self.quiet or early or done in (0, self.count):
            return
        self._last, left = spent, spent / done * (self.count - done)
        line = say("progress.lines", self.language, done=done, count=self.count, left=f"{left:.0f}")
        if sys.stderr.isatty():
            overwrite_line(line)
        else:
            print_line(line, err=True)

    def clear(self) -> None:
        """Remove the last report where the terminal can, so that results follow each other."""
        if self._last and sys.stderr.isatty():
            clear_line()
