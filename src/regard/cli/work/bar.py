"""A bar on stderr for work of a known size, once it takes more than a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.cli.work.patience import PATIENCE


class Bar:
    """How many of all are done, and how much time is left."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        columns = (TextColumn("{task.completed:,.0f}/{task.total:,.0f}"), BarColumn())
        console = Console(stderr=True, quiet=quiet)
        self.progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self.task, self.start = self.progress.add_task("", total=total), monotonic()

    def after(self, before: int) -> Callable[[int], None]:
        """What is told how many are done, after so many others."""
        return lambda done: self.show(before + done)

    def show(self, done: int) -> None:
        """Say how many are done."""
        self.progress.update(self.task, completed=done)
        late = monotonic() - self.start > PATIENCE
        if late and self.progress.console.is_terminal and not self.progress.live.is_started:
            self.progress.start()


@contextmanager
def progress(total: int, *, quiet: bool) -> Iterator[Bar]:
    """A bar that is gone after the work."""
    bar = Bar(total, quiet=quiet)
    try:
        yield bar
    finally:
        if bar.progress.live.is_started:
            bar.progress.stop()
