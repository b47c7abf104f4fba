"""Callbacks that log the events of training: JsonLines and TensorBoard."""

import json
import time
from dataclasses import asdict, replace
from io import SEEK_END, FileIO
from pathlib import Path
from typing import Any

from regard.errors import FileError, RegardError
from regard.training.events import Ended, Evaluated, Event, Saved, Started, Stepped


class JsonLines:
    """Appends every event to a file as one line of JSON, with the time in seconds since 1970."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        """Log an event."""
        line = json.dumps({"time": round(time.time(), 3)} | record(event), ensure_ascii=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                _append(file, f"{line}\n".encode())
        except OSError as error:
            raise FileError(
                f"cannot write {self.path}: {error.strerror or error}; make room and run again to "
                "go on from the newest checkpoint"
            ) from error


def _append(file: FileIO, line: bytes) -> None:
    """Append a line whole or not at all; without a buffer, a kill cannot cut it either."""
    size = file.seek(0, SEEK_END)
    try:
        written = file.write(line)
        if written != len(line):  # there was room for a part
            file.write(line[written:])
    except OSError:
        file.truncate(size)
        raise


class TensorBoard:
    """Logs losses, learning rates and metrics for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError(
                "writing for TensorBoard needs it; install it with: "
                "pip install 'regard[tensorboard]'"
            ) from error
        self.writer: Any = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        """Log an event."""
        if isinstance(event, Stepped):
            for name in ("loss", "rate", "norm"):
                self.writer.add_scalar(f"train/{name}", getattr(event, name), event.step)
        elif isinstance(event, Evaluated):
            for name, value in event.metrics.items():
                self.writer.add_scalar(f"dev/{name}", value, event.step)
        elif isinstance(event, Ended):
            self.writer.close()


def record(event: Event) -> dict[str, Any]:
    """The event as a dictionary that JSON can store; the model is left out."""
    kind = type(event).__name__.lower()
    if isinstance(event, Started):
        return {"event": kind, "step": event.step, "total": event.total}
    if isinstance(event, Evaluated):
        event = replace(event, model=None)
    # The log calls metrics "scores": logs of earlier runs and new ones have the same keys.
    fields = {
        "scores" if name == "metrics" else name: value
        for name, value in asdict(event).items()
        if name != "model"
    }
    if isinstance(event, Saved | Ended):
        fields["path"] = None if event.path is None else str(event.path)
    return {"event": kind} | fields
