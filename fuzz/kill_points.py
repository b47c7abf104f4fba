"""Run a function in a forked child, and kill the child at one of its operations on files.

An operation is anything that changes what a folder holds: opening for writing, every write, fsync,
rename, exchange, link, mkdir, unlink and rmdir. The k-th one is where the child dies, before the
operation; a write dies with half of its bytes written. So the kills at all operations of a function
are all states that a process which is killed at any moment can leave.
"""

import builtins
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.files import replacement
from regard.models.checkpoints import pretrained
from regard.training import checkpoints

SECONDS = 60  # after which a child is a hang
_EVENTS = (
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.utime", "os.chmod",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Ending:
    """How a child ended: its signal or 0, and where it was not killed what it did.

    `modules` are those that it imported, `error` is a traceback or "".
    """

    killed_by: int
    operations: list[str]
    modules: list[str]
    error: str


@dataclass
class KillPoints:
    """The operations of this process in a folder so far; at number `kill_at` it kills itself."""

    folder: Path
    kill_at: int | None
    operations: list[str] = field(default_factory=list)

    def reach(self, name: str, die: Callable[[], Any] = lambda: None) -> None:
        """Count an operation; `die` is done last, where it is the one to be killed at."""
        self.operations.append(name)
        if len(self.operations) == self.kill_at:
            die()
            os.kill(os.getpid(), signal.SIGKILL)

    def holds(self, path: Any) -> bool:
        """True if the path is in the folder that is watched."""
        inside = isinstance(path, str | bytes | os.PathLike)
        return inside and os.fsdecode(path).startswith(str(self.folder))

    def _name(self, path: Any) -> str:
        """The path relative to the folder."""
        return (
            str(path)
            if isinstance(path, int)
            else os.fsdecode(path).removeprefix(f"{self.folder}/")
        )

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an operation that Python announces to audit hooks."""
        if event == "open":
            if self.holds(arguments[0]) and (arguments[2] or 0) & _WRITING:
                self.reach(f"open {self._name(arguments[0])}")
        elif event in _EVENTS:
            # rmtree removes names relative to an open folder, its last argument
            relative = isinstance(arguments[-1], int) and arguments[-1] != -1
            if relative or self.holds(arguments[0]):
                self.reach(f"{event} {self._name(arguments[0])}")

    def install(self) -> None:
        """Count all operations of this process from now on."""
        sys.addaudithook(self.audit)
        builtins.open = io.open = self._counting_open(io.open)  # type: ignore[assignment]
        os.fsync = self._counting(os.fsync, "fsync")
        os.write = self._counting(os.write, "os.write")
        replacement._exchange_names = self._counting(replacement._exchange_names, "exchange")
        for module in (checkpoints, pretrained):
            module.save_file = self._counting_save(module.save_file)

    def _counting(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A function that counts its calls."""

        def call(*arguments: Any) -> Any:
            self.reach(name)
            return function(*arguments)

        return call

    def _counting_save(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """A `save_file` of safetensors, which writes without Python: killed before or half done."""

        def call(tensors: Any, path: Path, *arguments: Any) -> None:
            def write_half() -> None:
                save(tensors, path, *arguments)
                os.truncate(path, path.stat().st_size // 2)

            self.reach("save_file")
            self.reach("half of save_file", write_half)
            save(tensors, path, *arguments)

        return call

    def _counting_open(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """An `open` whose files in the folder count every write."""
        points = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                half = memoryview(data).cast("B")[: memoryview(data).nbytes // 2]
                points.reach("write", lambda: io.FileIO.write(self, half))
                return super().write(data) or 0

        def call(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **more: Any) -> Any:
            if not points.holds(file) or not {*mode} & {*"wax+"}:
                return plain(file, mode, buffering, *text, **more)
            raw = File(file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffer if "b" in mode else io.TextIOWrapper(buffer, *text, **more)

        return call


def run_child(work: Callable[[], Any], folder: Path, kill_at: int | None = None) -> Ending:
    """Do some work in a forked child, which is killed at an operation in the folder."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work_in_child(work, KillPoints(folder, kill_at), writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    signal_number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return Ending(signal_number, *(json.loads(text) if text else ([], [], "")))


def _work_in_child(work: Callable[[], Any], points: KillPoints, writing: int) -> None:
    """Do the work, tell the parent how it ended, and leave without Python's cleaning up."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    error, tell, modules = "", os.write, {*sys.modules}
    try:
        points.install()
        work()
    except BaseException:
        error = traceback.format_exc()
    imported = sorted({*sys.modules} - modules)
    data = json.dumps([points.operations, imported, error[-6000:]]).encode()
    while data:
        data = data[tell(writing, data) :]
    os._exit(0)
