"""How much observing costs: ratios to torch's attention on the same inputs, interleaved in one run.

Each row is the fastest of many rounds in which every contestant takes its turn, so that a
machine shared with others tells the same story to all.
"""

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.kernels import Region, What, observe, received, window
from regard.kernels.call import Call, Scoring
from regard.kernels.choice import PORTABLE
from regard.masks import causal

THREADS, DIM, HEADS = 2, 64, 12
SUMMARY, TOP = What(), What(top=8)


@dataclass(frozen=True)
class Row:
    """One measured ratio (or number) beside what it should stay under."""

    name: str
    measured: float
    target: float
    unit: str = "x"


def fastest(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def inputs(length: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, length, DIM, generator=generator) for _ in range(3))
    return query, key, value


@dataclass(frozen=True)
class Size:
    """One length to race at, and the targets there."""

    length: int
    heads: int
    rounds: int
    summary: float
    top: float


SIZES = [
    Size(512, HEADS, 60, 1.15, 1.25),
    Size(2048, HEADS, 20, 1.05, 1.10),
    Size(8192, HEADS, 4, 1.00, 1.05),
    Size(32768, 2, 2, 1.05, 1.10),
]


def native_rows() -> Iterator[Row]:
    """Statistics and atlas, and these with the eight largest weights."""
    for size in SIZES:
        for hidden in (False, True):
            yield from race(size, hidden=hidden)


def race(size: Size, *, hidden: bool) -> Iterator[Row]:
    query, key, value = inputs(size.length, size.heads)
    mask = causal() if hidden else None
    best = fastest(
        {
            "torch": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=hidden),
            "summary": lambda: observe(query, key, value, mask=mask, keep=SUMMARY),
            "top": lambda: observe(query, key, value, mask=mask, keep=TOP),
        },
        size.rounds,
    )
    name = f"{size.length}{' causal' if hidden else ''}"
    yield Row(f"{name}: statistics and atlas", best["summary"] / best["torch"], size.summary)
    yield Row(f"{name}: and top 8", best["top"] / best["torch"], size.top)


def other_rows(length: int = 8192, heads: int = 4) -> Iterator[Row]:
    """Under autograd, received, and the portable kernel."""
    query, key, value = inputs(length, heads)
    wanting = query.clone().requires_grad_()
    lse = observe(query, key, value).lse
    call = Call(query, key, value, Scoring())
    best = fastest(
        {
            "torch": lambda: F.scaled_dot_product_attention(query, key, value),
            "learning": lambda: observe(wanting, key, value),
            "received": lambda: received(query, key, lse),
            "portable": lambda: PORTABLE.observe(call, SUMMARY),
            "portable top": lambda: PORTABLE.observe(call, TOP),
        },
        rounds=4,
    )
    targets = {"learning": 1.10, "received": 0.7, "portable": 3.5, "portable top": 4.5}
    names = {"learning": "under autograd", "portable top": "portable and top 8"}
    for name, target in targets.items():
        ratio = best[name] / best["torch"]
        yield Row(f"{length}: {names.get(name, name)}", ratio, target)


def window_rows(length: int = 32768, tries: int = 20) -> Iterator[Row]:
    """The slowest but one of twenty windows of 512 x 512 cells at each zoom."""
    query, key, value = inputs(length, 1)
    lse = observe(query, key, value, keep=What(context=False, statistics=False, atlas=0)).lse
    for zoom in (1, 4, 8, 16):
        side, times = 512 * zoom, []
        for number in range(tries):
            first = (length - side) * number // tries
            region = Region(range(first, first + side), range(side), zoom=zoom)
            start = time.perf_counter()
            window(query, key, lse, region)
            times.append(time.perf_counter() - start)
        late = sorted(times)[int(0.95 * (tries - 1))]
        yield Row(f"{length}: window of 512 x 512 at zoom {zoom}, p95", late * 1e3, 100, " ms")


def memory_rows(length: int = 32768, heads: int = 2) -> Iterator[Row]:
    """What a call holds at its highest, beyond what torch's attention holds."""
    query, key, value = inputs(length, heads)
    F.scaled_dot_product_attention(query, key, value)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = observe(query, key, value, keep=TOP)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert seen.atlas is not None
    unit = 1 if sys.platform == "darwin" else 1024
    yield Row(f"{length}: memory of an observation", (after - before) * unit / 2**20, 64, " MB")


def rows() -> Iterator[Row]:
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        yield from memory_rows()
        yield from native_rows()
        yield from window_rows()
    yield from other_rows()


def main() -> None:
    print(f"{'what':<48}{'measured':>12}{'target':>12}")
    for row in rows():
        mark = "" if row.measured <= row.target else "  above"
        print(
            f"{row.name:<48}{row.measured:>10.2f}{row.unit:<2}{row.target:>10.2f}{row.unit}{mark}",
            flush=True,
        )


if __name__ == "__main__":
    main()
