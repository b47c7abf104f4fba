"""The cost of observing attention, as ratios to torch's own attention on the same inputs.

Each row uses the fastest of many rounds in which the contestants take turns, so that other load on
the machine affects all of them alike.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.measure import OURS, Effort, Row, Table, Target, peak_memory
from regard.kernels.observe import ObserveOptions, Region, observe, received, window
from regard.kernels.observe.call import Call, Scoring
from regard.kernels.observe.choice import PORTABLE
from regard.masks import causal

DIM, HEADS = 64, 12
SUMMARY, TOP = ObserveOptions(), ObserveOptions(top=8)


_PEER = "F.scaled_dot_product_attention"


def ratio(case: str, measured: float, limit: float) -> Row:
    """Our time over that of torch's own attention."""
    return Row(case, _PEER, "time", measured, None, Target(limit))


def fastest(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The shortest time of each contestant, in seconds."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def inputs(length: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random query, key and value of one example."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, length, DIM, generator=generator) for _ in range(3))
    return query, key, value


@dataclass(frozen=True)
class Size:
    """One length to measure at, with its targets."""

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


def native_rows(sizes: list[Size]) -> Iterator[Row]:
    """Observing statistics and atlas, without and with the eight largest weights of each row."""
    for size in sizes:
        for hidden in (False, True):
            yield from race(size, hidden=hidden)


def race(size: Size, *, hidden: bool) -> Iterator[Row]:
    """Observing against torch's attention at one size; `hidden` adds a causal mask."""
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
    yield ratio(f"{name}: statistics and atlas", best["summary"] / best["torch"], size.summary)
    yield ratio(f"{name}: and top 8", best["top"] / best["torch"], size.top)


def other_rows(length: int = 8192, heads: int = 4) -> Iterator[Row]:
    """Observing under autograd, the weight that keys receive, and the portable kernel."""
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
        yield ratio(f"{length}: {names.get(name, name)}", best[name] / best["torch"], target)


def window_rows(length: int = 32768, tries: int = 20) -> Iterator[Row]:
    """The 95th percentile of the time to recompute a window of 512 x 512 cells, at each zoom."""
    query, key, value = inputs(length, 1)
    lse = observe(
        query, key, value, keep=ObserveOptions(context=False, statistics=False, atlas=0)
    ).lse
    for zoom in (1, 4, 8, 16):
        side, times = 512 * zoom, []
        for number in range(tries):
            first = (length - side) * number // tries
            region = Region(range(first, first + side), range(side), zoom=zoom)
            start = time.perf_counter()
            window(query, key, lse, region)
            times.append(time.perf_counter() - start)
        late = sorted(times)[int(0.95 * (tries - 1))]
        case = f"{length}: window of 512 x 512 at zoom {zoom}"
        yield Row(case, "-", "p95 in ms", late * 1e3, None, Target(100))


def contenders(length: int, heads: int) -> dict[str, Callable[[], object]]:
    """One observation with all that it can keep, and torch's own attention."""
    query, key, value = inputs(length, heads)
    return {
        OURS: lambda: observe(query, key, value, keep=TOP),
        _PEER: lambda: F.scaled_dot_product_attention(query, key, value),
    }


def memory_row(length: int = 32768, heads: int = 2) -> Row:
    """The peak memory of observing minus that of torch's attention."""
    case, warm = partial(contenders, length, heads), partial(contenders, 64, heads)
    ours, theirs = (peak_memory(case, name, warm=warm) for name in (OURS, _PEER))
    label = f"{length}: statistics, atlas and top 8"
    if isinstance(ours, str) or isinstance(theirs, str):
        return Row(label, _PEER, "MiB beyond", None, None, Target(64), f"{ours}; {theirs}")
    return Row(label, _PEER, "MiB beyond", (ours - theirs) / 2**20, None, Target(64))


def observed_rows(effort: Effort) -> Iterator[Row]:
    """Memory and time of observing, then autograd and the portable kernel."""
    yield memory_row()
    with torch.no_grad():
        yield from native_rows(SIZES[:2] if effort.quick else SIZES)
    yield from other_rows(2048 if effort.quick else 8192)


TABLES = {
    "observed": Table(
        f"Attention observed in one pass, heads of width {DIM}, {HEADS} of them (2 at 32768)",
        observed_rows,
        4.0,
    ),
    "windows": Table(
        "Recomputed weights of a window of one head",
        lambda effort: window_rows(8192 if effort.quick else 32768),
        0.5,
    ),
}
