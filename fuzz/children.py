"""Run cases in forked child processes, so that a crash or a hang is attributed to its case.

The parent imports everything once and forks a child for each case, which costs some milliseconds::

    def read_case(folder: Path) -> Outcome: ...

    for number, outcome in run_in_children({7: read_case}, workers=2):
        print(number, outcome.kind, outcome.detail)

A child has a folder of its own that is removed when it ends, no input on stdin, and its stdout and
stderr in files. It may use LIMITS.cpu seconds of processor time and LIMITS.memory bytes beyond what
the parent has, so that a huge allocation is a MemoryError there and not the end of the machine.
"""

import faulthandler
import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

__all__ = ["FAILURES", "LIMITS", "Limits", "Outcome", "describe_exception", "run_in_children"]

FAILURES = ("traceback", "signal", "hang", "lost or mixed file", "wrong number", "other")
_DETAIL_LENGTH = 6000  # characters; an outcome must fit into a pipe, which holds 64 KiB


@dataclass(frozen=True)
class Outcome:
    """How a case ended: "success", "refusal" (a RegardError), or one of FAILURES.

    `place` is equal for failures of one cause: the exception and the line of regard that raised it.
    """

    kind: str
    detail: str = ""
    place: str = ""

    @property
    def failed(self) -> bool:
        """True if this is not how a case may end."""
        return self.kind in FAILURES


@dataclass(frozen=True)
class Limits:
    """What a child may use. The clock runs longer than the processor: others may hold the cores."""

    cpu: int = 10
    clock: int = 40
    memory: int = 3 << 30


LIMITS = Limits()
Action = Callable[[Path], Outcome]


@dataclass(eq=False)
class _Child:
    """A running case: its process, the pipe with its outcome, its files, and when it must end."""

    number: int
    process: int
    pipe: int
    folder: Path
    deadline: float

    @property
    def errors(self) -> Path:
        return self.folder / "stderr"


def run_in_children(
    cases: Mapping[int, Action] | Iterator[tuple[int, Action]],
    *,
    workers: int = 1,
    limits: Limits = LIMITS,
) -> Iterator[tuple[int, Outcome]]:
    """The outcome of each case, as the cases end; `workers` of them run at the same time."""
    waiting = iter(cases.items()) if isinstance(cases, Mapping) else cases
    running: dict[int, _Child] = {}
    _prepare_parent()
    try:
        while True:
            while len(running) < workers and (case := next(waiting, None)) is not None:
                child = _start(*case, limits)
                running[child.pipe] = child
            if not running:
                return
            for child in _wait(running):
                del running[child.pipe]
                yield child.number, _finish(child, limits)
    finally:
        for child in running.values():
            os.kill(child.process, signal.SIGKILL)
            _finish(child, limits)


def _prepare_parent() -> None:
    """Free what forked children would copy, and leave them no pool of threads to wait for."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise write to, and so copy, every page
    sys.stdout.flush()
    sys.stderr.flush()


def _start(number: int, act: Action, limits: Limits) -> _Child:
    """Fork a child that runs one case."""
    folder = Path(tempfile.mkdtemp(prefix="regard-fuzz-"))
    read_end, write_end = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read_end)
        _run_child(act, folder, write_end, limits)
    os.close(write_end)
    return _Child(number, process, read_end, folder, time.monotonic() + limits.clock)


def _run_child(act: Action, folder: Path, pipe: int, limits: Limits) -> None:
    """What a child does: limit itself, run the case, send the outcome, and end at once."""
    try:
        os.setsid()  # Ctrl-C is for the parent, which ends its children itself
        errors = _redirect_streams(folder)
        faulthandler.enable(errors)
        faulthandler.register(signal.SIGXCPU, errors)
        _set_limits(limits)
        torch.set_num_threads(1)
        inner = folder / "case"
        inner.mkdir()
        os.chdir(inner)
        outcome = act(inner)
    except BaseException as error:  # also SystemExit, and what Rust code raises when it panics
        outcome = describe_exception(error)
    detail = outcome.detail[:_DETAIL_LENGTH]
    message = json.dumps(asdict(outcome) | {"detail": detail}).encode()
    os.write(pipe, message)
    os._exit(0)  # no clean-up: the parent's exit handlers are not for its children


def _redirect_streams(folder: Path) -> int:
    """Point stdin at nothing, stdout and stderr at files; the descriptor of stderr."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return 2


def _set_limits(limits: Limits) -> None:
    """Limit processor time and memory; at the soft limit the stack is written to stderr."""
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu, limits.cpu + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + limits.memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    faulthandler.dump_traceback_later(limits.clock - 1, file=2)


def _wait(running: Mapping[int, _Child]) -> list[_Child]:
    """The children that ended; those whose time is over are killed."""
    soonest = min(child.deadline for child in running.values())
    ready, _, _ = select.select([*running], [], [], max(0.0, soonest - time.monotonic()))
    if ready:
        return [running[pipe] for pipe in ready]
    late = [child for child in running.values() if child.deadline <= time.monotonic()]
    for child in late:
        os.kill(child.process, signal.SIGKILL)
    return late


def _finish(child: _Child, limits: Limits) -> Outcome:
    """The outcome that a child sent, or how its process ended if it sent none."""
    with os.fdopen(child.pipe, "rb") as pipe:
        message = pipe.read()
    _, status, usage = os.wait4(child.process, 0)
    try:
        if message:
            return Outcome(**json.loads(message))
        stack = child.errors.read_text(errors="replace") if child.errors.exists() else ""
        place = _place_in_dump(stack)
        late = child.deadline <= time.monotonic()
        if late or usage.ru_utime + usage.ru_stime >= limits.cpu:
            return Outcome("hang", f"did not end in {limits.cpu} s\n{stack}", f"hang at {place}")
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "no outcome"
        return Outcome("signal", f"{name}\n{stack}", f"{name} at {place}")
    finally:
        shutil.rmtree(child.folder, ignore_errors=True)


def _place_in_dump(stack: str) -> str:
    """The innermost line of regard in a stack that faulthandler wrote."""
    lines = [line.strip() for line in stack.splitlines() if line.strip().startswith("File ")]
    own = [line for line in lines if "/regard/" in line]
    line = (own or lines or ["an unknown place"])[0]
    return line.rpartition("/src/")[2].replace('", line ', ":")


def describe_exception(error: BaseException) -> Outcome:
    """An exception that should not have come, as an outcome with its traceback and place."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}regard{os.sep}" in frame.filename]
    line = (own or list(frames))[-1] if frames else None
    where = "an unknown place"
    if line is not None:
        where = f"{line.filename.rpartition('/src/')[2]}:{line.lineno} in {line.name}"
    text = "".join(traceback.format_exception(error, limit=-12))
    return Outcome("traceback", text[-_DETAIL_LENGTH:], f"{type(error).__name__} at {where}")
