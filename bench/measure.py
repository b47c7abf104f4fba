"""Times and peak memory of contenders side by side, and the rows and tables that report them."""

import ctypes
import gc
import math
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

OURS = "ours"

Contender = Callable[[], Any]
Case = Callable[[], Mapping[str, Contender]]  # makes the inputs and returns the contenders by name

_LEAST_ROUNDS = 3
_SHARE = 0.85  # the share of the free memory that a contender may use
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_M_MMAP_THRESHOLD, _MAPPED = -3, 1 << 16  # glibc: larger pieces go back to the system at once


@dataclass(frozen=True)
class Effort:
    """How long to measure: all sizes with many rounds, or (quick) half of them with few rounds."""

    quick: bool = False

    @property
    def repeats(self) -> int:
        """The largest number of rounds of one comparison."""
        return 10 if self.quick else 40

    @property
    def seconds(self) -> float:
        """The time after which a comparison ends, once it has the least number of rounds."""
        return 1.5 if self.quick else 4.0

    def sizes(self, *sizes: int) -> tuple[int, ...]:
        """The sizes to measure: all of them, or the smaller half for a quick run."""
        return sizes[: math.ceil(len(sizes) / 2)] if self.quick else sizes


@dataclass(frozen=True)
class Timings:
    """The seconds of each contender in each round, and the reason for each that failed."""

    seconds: Mapping[str, list[float]]
    failures: Mapping[str, str]

    def ratio(self, name: str, to: str) -> float:
        """The shortest time of `name` divided by the shortest time of `to`."""
        return min(self.seconds[name]) / min(self.seconds[to])

    def median(self, name: str, to: str) -> float:
        """The median over the rounds of the time of `name` divided by that of `to`."""
        rounds = zip(self.seconds[name], self.seconds[to], strict=True)
        return statistics.median(mine / theirs for mine, theirs in rounds)


def compare(
    contenders: Mapping[str, Contender],
    repeats: int,
    *,
    seconds: float = math.inf,
    gradient: bool = False,
    check: bool = True,
) -> Timings:
    """The times of the contenders, measured in alternating order after one first call of each.

    A peer fails if it raises or if its first result differs from that of the first contender.
    """
    with torch.set_grad_enabled(gradient):
        failures = _find_failures(contenders, check=check)
        names = [name for name in contenders if name not in failures]
        times: dict[str, list[float]] = {name: [] for name in names}
        with _no_collection():
            start = time.perf_counter()
            for number in range(repeats):
                if number >= _LEAST_ROUNDS and time.perf_counter() - start > seconds:
                    break
                for name in names if number % 2 else names[::-1]:
                    times[name].append(_time_call(contenders[name]))
    return Timings(times, failures)


def peak_memory(case: Case, name: str, *, warm: Case, gradient: bool = False) -> int | str:
    """The bytes that one contender adds at its peak, in a new process, or why it could not run.

    The contender of the `warm` case, a small one, runs first, so that libraries loaded by a first
    call are not counted.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "regard.attention"])
    here, there = context.Pipe(duplex=False)
    child = context.Process(
        target=_report_peak, args=(there, case, name, warm, gradient, torch.get_num_threads())
    )
    child.start()
    there.close()
    try:
        answer: int | str = here.recv()
    except EOFError:
        answer = "its process was ended, probably for want of memory"
    child.join()
    return answer


def cap_memory() -> None:
    """Limit the address space, so that too large an allocation raises an error."""
    free = _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    used = _kilobytes(_STATUS, "VmSize")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int((used + _SHARE * free) * 1024), hard))


@dataclass(frozen=True)
class Target:
    """A bound on a ratio: an upper one for ours / theirs, or a lower one for theirs / ours."""

    limit: float
    at_least: bool = False

    def verdict(self, ratio: float) -> str:
        """The text "met", or by how much the ratio, rounded to two decimals, misses the bound."""
        ratio = round(ratio, 2)
        if ratio >= self.limit if self.at_least else ratio <= self.limit:
            return "met"
        return f"**missed by {abs(ratio / self.limit - 1):.0%}**"

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:.2f}"


@dataclass(frozen=True)
class Row:
    """One row of a table: a ratio against one peer, or a note why there is none."""

    case: str
    peer: str
    measured: str
    ratio: float | None = None
    median: float | None = None
    target: Target | None = None
    note: str = ""

    def cells(self) -> list[str]:
        """The cells of the row as text."""
        shown = ["-" if number is None else f"{number:.2f}" for number in (self.ratio, self.median)]
        target = "-" if self.target is None else str(self.target)
        met = "" if self.target is None or self.ratio is None else self.target.verdict(self.ratio)
        verdict = "; ".join(part for part in (met, self.note) if part)
        return [self.case, self.peer, self.measured, *shown, target, verdict]


@dataclass(frozen=True)
class Table:
    """A table of results: `run` measures its rows, which takes about `minutes` minutes."""

    title: str
    run: Callable[[Effort], Iterator[Row]]
    minutes: float


def time_rows(timings: Timings, case: str, targets: Mapping[str, Target | None]) -> Iterator[Row]:
    """A row for each peer: ours / theirs, or theirs / ours where the target is a lower bound."""
    for peer, target in targets.items():
        if peer in timings.failures:
            yield Row(case, peer, "time", None, None, target, timings.failures[peer])
            continue
        sides = (peer, OURS) if target and target.at_least else (OURS, peer)
        yield Row(case, peer, "time", timings.ratio(*sides), timings.median(*sides), target)


def memory_row(case: str, peer: str, target: Target, ours: int | str, theirs: int | str) -> Row:
    """The row of two peaks: ours / theirs, or theirs / ours where the target is a lower bound."""
    for side in (ours, theirs):
        if isinstance(side, str):
            return Row(case, peer, "memory", None, None, target, side)
    above, below = (theirs, ours) if target.at_least else (ours, theirs)
    note = f"{ours / 2**20:.1f} against {theirs / 2**20:.1f} MiB"
    return Row(case, peer, "memory", above / max(below, 1), None, target, note)


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a table in markdown."""
    head = ["case", "peer", "measured", "ratio", "median", "target", "verdict"]
    lines = [
        head,
        ["---", "---", "---", "--:", "--:", "---", "---"],
        *(row.cells() for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _find_failures(contenders: Mapping[str, Contender], *, check: bool) -> dict[str, str]:
    """Call each contender once; the reasons of those that raise or give another result."""
    failures: dict[str, str] = {}
    ours, *peers = contenders
    expected = contenders[ours]()
    for name in peers:
        try:
            result = contenders[name]()
            if check:
                torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-4)
        except AssertionError as error:
            failures[name] = f"gives another result: {_one_line(error)}"
        except Exception as error:
            failures[name] = f"cannot run: {_one_line(error)}"
    return failures


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from running during a measurement."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _time_call(contender: Contender) -> float:
    """The seconds of one call, without the time to free its result."""
    start = time.perf_counter()
    result = contender()
    seconds = time.perf_counter() - start
    del result
    return seconds


def _report_peak(
    answer: Connection, case: Case, name: str, warm: Case, gradient: bool, threads: int
) -> None:
    """In the child process: send the peak memory minus the memory used after making the inputs."""
    torch.set_num_threads(threads)
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MAPPED)
    cap_memory()
    try:
        with torch.set_grad_enabled(gradient):
            warm()[name]()
            contender = case()[name]
            gc.collect()
            _CLEAR.write_text("5")
            before = _kilobytes(_STATUS, "VmRSS")
            result = contender()
            answer.send((_kilobytes(_STATUS, "VmHWM") - before) * 1024)
            del result
    except Exception as error:
        answer.send(f"cannot run: {_one_line(error)}")


def _kilobytes(file: Path, field: str) -> int:
    """A field of /proc/meminfo or /proc/self/status."""
    line = next(line for line in file.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1])


def _one_line(error: Exception) -> str:
    """The message of an error, short enough for a cell of a table."""
    return " ".join(str(error).split())[:120].replace("|", "/") or type(error).__name__
