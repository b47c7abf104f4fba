"""The progress of training in the terminal."""

from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.training.events import Ended, Evaluated, Event, Started, Stepped

__all__ = ["TrainingBar"]

SPEED_SECONDS = 30.0  # the speed is the mean over this time


class TrainingBar:
    """A callback of training: a bar with loss, speed, learning rate and the time that is left.

    Metrics and samples of each evaluation are printed above it.
    """

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.progress.add_task("", total=None, status="")
        self._recent: list[tuple[float, int]] = []  # times of the last steps, and their tokens

    def __call__(self, event: Event) -> None:
        """Show an event of training."""
        if isinstance(event, Started):
            self.progress.update(self.task, total=event.total, completed=event.step)
            self.progress.start()
        elif isinstance(event, Stepped):
            speed = f"{self._tokens_per_second(event):,.0f} tokens/s"
            status = f"loss {event.loss:.3f}  {speed}  {event.rate:.1e}"
            self.progress.update(self.task, completed=event.step, status=status)
        elif isinstance(event, Evaluated):
            self._print_evaluation(event)
        elif isinstance(event, Ended):
            self.progress.stop()

    def _tokens_per_second(self, event: Stepped) -> float:
        """The speed of training, as the mean over the last SPEED_SECONDS."""
        now = monotonic()
        self._recent.append((now, event.tokens))
        self._recent = [step for step in self._recent if step[0] > now - SPEED_SECONDS]
        start = self._recent[0][0] - event.seconds
        return sum(tokens for _, tokens in self._recent) / max(now - start, 1e-6)

    def _print_evaluation(self, event: Evaluated) -> None:
        """Print the metrics and samples of an evaluation above the bar."""
        metrics = "  ".join(f"{name} {value:.3g}" for name, value in event.metrics.items())
        console = self.progress.console
        console.print(f"{event.step}: {metrics}{'  (best)' if event.best else ''}")
        for sample in event.samples:
            console.print("  " + " | ".join(sample.values()))
