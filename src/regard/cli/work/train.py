"""The work of `regard train`: a recipe followed, with its progress in the terminal."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.cli.output import as_text
from regard.errors import InputError
from regard.loading import find_device
from regard.training.events import Ended, Evaluated, Event, Started, Stepped
from regard.training.logs import JsonLines, TensorBoard
from regard.training.recipe_file import load_recipe
from regard.training.train import train as follow

_WORDS = {
    "en": {
        "done": "done after {step} steps",
        "stopped early": "stopped after {step} steps: the scores no longer rise",
        "interrupted": "interrupted after {step} steps; run the same command to go on",
        "out of time": "out of time after {step} steps; run the same command to go on",
        "model": "the model is in {path}",
    },
    "zh": {
        "done": "完成，共 {step} 步",
        "stopped early": "在第 {step} 步停止：分数不再上升",
        "interrupted": "在第 {step} 步中断；再次运行同一命令即可继续",
        "out of time": "时间到，已训练 {step} 步；再次运行同一命令即可继续",
        "model": "模型位于 {path}",
    },
}
_PACE = 30.0  # seconds over which the speed is taken


def run(
    recipe: Path, changes: tuple[str, ...], seed: int | None, tensorboard: bool, **asked: Any
) -> None:
    """Follow the recipe, and say how it ended."""
    device = None if asked["device"] is None else str(find_device(asked["device"]))
    chance = {} if seed is None else {"seed": seed}
    plan = load_recipe(recipe, **dict(map(_change, changes)) | chance)
    callbacks: list[Any] = [JsonLines(plan.folder / "log.jsonl")]
    if tensorboard:
        callbacks.append(TensorBoard(plan.folder / "tensorboard"))
    if not asked["quiet"]:
        callbacks.append(Bar(Console(stderr=True, highlight=False)))
    click.echo(_said(follow(plan, callbacks=callbacks, device=device), asked))


def _said(ended: Ended, asked: dict[str, Any]) -> str:
    if asked["as_json"]:
        return as_text(asdict(ended) | {"path": None if ended.path is None else str(ended.path)})
    words = _WORDS[asked["lang"]]
    lines = [words[ended.reason].format(step=ended.step)]
    if ended.path is not None:
        lines.append(words["model"].format(path=ended.path))
    return "\n".join(lines)


class Bar:
    """A bar with loss, speed, rate and time left; scores and samples are printed above it."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.progress.add_task("", total=None, said="")
        self._recent: list[tuple[float, int]] = []

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Started):
            self.progress.update(self.task, total=event.total, completed=event.step)
            self.progress.start()
        elif isinstance(event, Stepped):
            said = f"loss {event.loss:.3f}  {self._speed(event):,.0f} tokens/s  {event.rate:.1e}"
            self.progress.update(self.task, completed=event.step, said=said)
        elif isinstance(event, Evaluated):
            self._print(event)
        elif isinstance(event, Ended):
            self.progress.stop()

    def _speed(self, event: Stepped) -> float:
        now = time.monotonic()
        self._recent.append((now, event.tokens))
        self._recent = [each for each in self._recent if each[0] > now - _PACE]
        begun = self._recent[0][0] - event.seconds
        return sum(tokens for _, tokens in self._recent) / max(now - begun, 1e-6)

    def _print(self, event: Evaluated) -> None:
        scores = "  ".join(f"{name} {value:.3g}" for name, value in event.metrics.items())
        console = self.progress.console
        console.print(f"{event.step}: {scores}{'  (best)' if event.best else ''}")
        for sample in event.samples:
            console.print("  " + escape(" | ".join(sample.values())))


def _change(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set expected KEY=VALUE, such as plan.steps=2000, got {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
