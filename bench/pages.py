"""Size, build time and drawing time of a page, compared with other attention viewers.

The trace is the same for all: a real MiniLM over real text. Each contender writes one file that a
browser opens from disk, without a network.
"""

import ctypes
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.browser import Browser, browser
from bench.measure import (
    OURS,
    Effort,
    Row,
    Table,
    Target,
    compare,
    memory_row,
    peak_memory,
    time_rows,
)
from bench.other_viewers import (
    ATTNVIEW,
    BERTVIZ,
    CIRCUITSVIS,
    DRAWN,
    INSPECTUS,
    PEERS,
    Inputs,
    watched,
    weights_of,
)
from bench.other_viewers import minilm as minilm  # other tables measure with it too
from regard.storage import load_trace, save_trace
from regard.types import Trace
from regard.views import heads

MB = 1e6


@dataclass(frozen=True)
class Size:
    """A length of text, and the targets for its page.

    The targets are the page in megabytes, the seconds until the first picture, and for each peer
    how many times smaller our page is and how many times sooner it is drawn.
    """

    layers: int
    tokens: int
    megabytes: float
    seconds: float
    smaller: Mapping[str, float] = field(default_factory=dict)
    sooner: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the case in the table."""
        return f"MiniLM, {self.layers} x 12 heads, {self.tokens} tokens"

    def beside(self, *peers: str) -> "Size":
        """The same size with these peers only."""
        return replace(self, smaller={peer: self.smaller[peer] for peer in peers})


SHORT = Size(
    6, 128, 1.5, 0.5, {BERTVIZ: 30, INSPECTUS: 4, ATTNVIEW: 1, CIRCUITSVIS: 1}, {INSPECTUS: 5}
)
LONG = Size(6, 512, 16, 0.8, {BERTVIZ: 50, INSPECTUS: 6, ATTNVIEW: 1}, {INSPECTUS: 20})
ALONE = (Size(12, 512, 32, 1.0), Size(12, 8192, 30, 1.5))
HOVER = Target(16.0)  # milliseconds
FACTORED = 192  # with more tokens, maps are encoded as in long texts

OURS_DRAWN = "document.querySelector('#regard[data-ready]') !== null"


def contenders(folder: Path, size: Size, trace: Trace) -> dict[str, Callable[[], Path]]:
    """The contenders: each writes its page of the same trace and returns the path."""

    def ours() -> Path:
        return heads(trace).save(folder / "ours.html")

    writers = {OURS: ours}
    inputs = weights_of(trace) if size.smaller else ([], [])
    for name in size.smaller:
        writers[name] = partial(_write_page, PEERS[name], inputs, folder / f"{name}.html")
    return writers


def _write_page(write: Callable[[Inputs, Path], None], inputs: Inputs, path: Path) -> Path:
    """Write a peer's page; the path."""
    write(inputs, path)
    return path


def page_rows(effort: Effort) -> Iterator[Row]:
    """Size, time and memory of building pages, compared with the peers."""
    for size in (SHORT,) if effort.quick else (SHORT, LONG):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            case = contenders(folder, size, watched(size.layers, size.tokens))
            rounds = 15 if size is SHORT else 3
            timings = compare(case, rounds, seconds=60 * effort.seconds, check=False)
            sizes = {each: _bytes(folder / f"{each}.html") for each in case}
            yield from _size_rows(size, sizes, timings.failures)
            targets = {BERTVIZ: Target(10, at_least=True), INSPECTUS: Target(1.0)}
            peers = {each: targets.get(each) for each in size.smaller}
            yield from time_rows(timings, size.name, peers)
            del case
            yield from _memory_rows(folder, size, sizes[OURS])


def alone_rows(effort: Effort) -> Iterator[Row]:
    """Our pages of sizes that no peer can open."""
    for size in ALONE[:1] if effort.quick else ALONE:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write = contenders(folder, size, watched(size.layers, size.tokens))[OURS]
            start = time.perf_counter()
            write()
            seconds = time.perf_counter() - start
            found = _bytes(folder / "ours.html")
            yield from _size_rows(size, {OURS: found}, {})
            yield Row(size.name, "-", "seconds to build", seconds)
            yield from _memory_rows(folder, size, found)


def _size_rows(size: Size, sizes: Mapping[str, int], failures: Mapping[str, str]) -> Iterator[Row]:
    yield Row(size.name, "-", "page in MB", sizes[OURS] / MB, None, Target(size.megabytes))
    for peer, least in size.smaller.items():
        if peer in failures:
            yield Row(size.name, peer, "page size", None, None, None, failures[peer])
            continue
        target = Target(least, at_least=True)
        note = f"{sizes[peer] / MB:.1f} MB"
        ratio = sizes[peer] / sizes[OURS]
        yield Row(size.name, peer, "page size", ratio, None, target, note)


def _memory_rows(folder: Path, size: Size, page: int) -> Iterator[Row]:
    """Peak memory of building: ours as a multiple of the page, and theirs / ours."""
    ours = _peak(folder, size, OURS)
    if isinstance(ours, str):
        yield Row(size.name, "-", "memory in pages", None, None, Target(3.0), ours)
        return
    note = f"{ours / 2**20:.1f} MiB for a page of {page / 2**20:.1f}"
    yield Row(size.name, "-", "memory in pages", ours / page, None, Target(3.0), note)
    for peer in size.smaller:
        target = Target(1.0, at_least=True)
        yield memory_row(size.name, peer, target, ours, _peak(folder, size, peer))


def _peak(folder: Path, size: Size, name: str) -> int | str:
    """The bytes that a contender adds, after it built a smaller page in the same way.

    The trace is loaded from a file, so that the process has no freed memory that could be reused.
    """
    alone = size.beside(*([] if name == OURS else [name]))
    cases = []
    for tokens in (FACTORED if size.tokens > FACTORED else 64, size.tokens):
        path = folder / f"{tokens}.safetensors"
        if not path.exists():
            save_trace(watched(size.layers, tokens), path)
        cases.append(partial(_load_contenders, folder, alone, path))
    return peak_memory(cases[1], name, warm=cases[0])


def _load_contenders(folder: Path, size: Size, path: Path) -> dict[str, Callable[[], Path]]:
    """The contenders for a trace from a file, which is read completely before they start.

    A memory-mapped file enters memory when it is read; that memory should not count for the page.
    """
    trace = load_trace(path, verify=True)
    for atlas in (site.atlas for site in trace if site.atlas is not None):
        atlas.mean.sum(), atlas.largest.sum()
    writers = contenders(folder, size, trace)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return writers


def browser_rows(effort: Effort) -> Iterator[Row]:
    """Time until the first picture and until hovering responds, in a headless Chromium."""
    for size in (SHORT,) if effort.quick else (SHORT, LONG, *ALONE):
        with tempfile.TemporaryDirectory() as name, browser() as opened:
            if isinstance(opened, str):
                yield Row(size.name, "-", "first picture", None, None, Target(size.seconds), opened)
                continue
            yield from _opened_rows(opened, Path(name), size)


def _opened_rows(opened: Browser, folder: Path, size: Size) -> Iterator[Row]:
    case = contenders(folder, size, watched(size.layers, size.tokens))
    path = case[OURS]()
    first = opened.first_picture(path, OURS_DRAWN, 9)
    if isinstance(first, str):
        yield Row(size.name, "-", "first picture in s", None, None, Target(size.seconds), first)
        return
    ours = statistics.median(first)
    yield Row(size.name, "-", "first picture in s", min(first), ours, Target(size.seconds))
    address = "#view=heatmap&head=0"
    yield Row(size.name, "-", "hover in ms, p95", opened.hover(path, address), None, HOVER)
    for peer in size.smaller:
        yield _peer_row(opened, case[peer], size, peer, (min(first), ours))


def _peer_row(
    opened: Browser,
    write: Callable[[], Path],
    size: Size,
    peer: str,
    ours: tuple[float, float],
) -> Row:
    """The row of how many times sooner our first picture appears than a peer's."""
    target = Target(size.sooner[peer], at_least=True) if peer in size.sooner else None
    try:
        path = write()
    except Exception as error:  # not installed, or it cannot draw this
        said = " ".join(str(error).split())[:120].replace("|", "/")
        return Row(size.name, peer, "first picture", None, None, target, f"cannot run: {said}")
    first = opened.first_picture(path, DRAWN[peer], 3)
    path.unlink()
    if isinstance(first, str):
        return Row(size.name, peer, "first picture", None, None, target, first)
    theirs = min(first), statistics.median(first)
    note = f"{theirs[1]:.2f} s"
    return Row(
        size.name, peer, "first picture", theirs[0] / ours[0], theirs[1] / ours[1], target, note
    )


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


TABLES = {
    "peers": Table("A page with every head, against other viewers", page_rows, 10.0),
    "alone": Table("Pages of longer texts", alone_rows, 4.0),
    "browser": Table("Until the first picture, and hovering, in a browser", browser_rows, 8.0),
}
