"""Random cases of every native and portable kernel against a plain reference in float64.

Tolerances, per dtype. Statistics, logsumexp and weights are computed in float32 for float32,
bfloat16 and float16 (unit 2^-24), in float64 for float64 (2^-53): they may be off by 40 units times
the size of the terms of a row's scores, and one unit for each key (`kernel_reference`). A context
may be off by that, relative to its largest value, and by the rounding of its dtype: 1e-6 in
float32, 1e-14 in float64, 2^-8 in bfloat16, 2^-10 in float16. Matrix products may be off by 2^-24
times the sum of the sizes of their products times 8 + their number; products of int8 by half a step
of each rounded number; a logsumexp of logits by 2e-6 of its size; top-k is exact.

Case N of seed S is made from (S, N) alone. Cases run in a process of their own, which says each
number before it begins: if it ends by a signal or hangs, the parent names that case and goes on
with the next one in a new process.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from fuzz.kernel_cases import EXTREMES, AttentionCase, attention_case, tensor, with_extremes
from fuzz.kernel_checks import (
    WrongNumberError,
    any_region,
    check_observation,
    check_received,
    check_region,
    compare,
)
from fuzz.kernel_reference import LIMIT, attention_reference
from regard.kernels.decode.int8 import native_int8_matvec, supports_int8_matvec
from regard.kernels.decode.matvec import MAX_MATVEC_ROWS, native_matvec, supports_matvec
from regard.kernels.decode.topk import native_logsumexp, native_topk, supports_topk
from regard.kernels.observe import ObserveOptions, observe, received, window
from regard.kernels.pair_sums import pair_gradients, pair_sums, supports_pair_sums

CASES = 5000
SECONDS = 40.0  # of one case, before it counts as hanging
UNIT = 2.0**-24
DENORMAL = 2.0**-149  # the last bit of float32's smallest numbers

Report = Callable[[str, str], None]


def run(seed: int, cases: int | None, report: Report) -> int:
    """Run the cases of a seed and report those that fail; returns how many ran."""
    total = CASES if cases is None else cases
    following = 0
    while following < total:
        for number, kind, detail in _run_in_process(seed, following, total):
            following = number + 1
            if kind:
                report(f"{kind}: {_name(seed, number)}, case {number}", detail)
            if hasattr(report, "progress"):
                report.progress(following, total)
    return total


def reproduce(seed: int, number: int) -> str:
    """What happens in one case."""
    [(_, kind, detail)] = _run_in_process(seed, number, number + 1)
    return f"{_name(seed, number)}: {kind or 'success'}\n{detail}"


def run_case(seed: int, number: int) -> None:
    """Run one case here; a wrong number raises."""
    chance = _chance(seed, number)
    check = _choose(chance)
    threads = torch.get_num_threads()
    torch.set_num_threads(chance.choice((1, 2)))
    try:
        check(chance)
    finally:
        torch.set_num_threads(threads)


def _chance(seed: int, number: int) -> Random:
    """The chance of one case, which also seeds torch."""
    chance = Random(f"{seed} {number}")
    torch.manual_seed(chance.getrandbits(62))
    return chance


def _choose(chance: Random) -> Callable[[Random], None]:
    """What the case checks: mostly attention."""
    checks = (check_attention, check_pair_sums, check_matvec, check_int8, check_topk)
    return chance.choices(checks, weights=(60, 10, 12, 8, 10))[0]


def _name(seed: int, number: int) -> str:
    """What a case checks, in words."""
    return _choose(_chance(seed, number)).__name__.removeprefix("check_")


def check_attention(chance: Random) -> None:
    """Observe a call with the native and the portable kernels, and recompute parts of its map."""
    case = attention_case(chance)
    truth = attention_reference(case)
    top = chance.choice((0, 1, 5, 8, 9, 40, case.sizes[3] + 3))
    atlas = chance.choice((0, 1, 4, 512))
    keep = ObserveOptions(chance.random() < 0.9, chance.random() < 0.9, top, atlas)
    region = any_region(chance, case) if 0 not in case.sizes[:2] else None
    choices = (-1, 0, 1, 2, 3, -(2**31) - 1, -(2**32) + 5, -(2**63))
    labels = [[chance.choice(choices) for _ in range(case.sizes[3])] for _ in range(case.sizes[0])]
    numbers = torch.tensor(labels, dtype=torch.long).view(case.sizes[0], case.sizes[3])
    for name in ("native", "portable"):
        setting = {"REGARD_NATIVE": "0"} if name == "portable" else {}
        try:
            with mock.patch.dict(os.environ, setting):
                _check_call(case, truth, keep, region, numbers)
        except WrongNumberError as error:
            raise WrongNumberError(f"{name}: {error}\n{case}\n{keep}\n{region}") from None


def _check_call(
    case: AttentionCase, truth: Any, keep: ObserveOptions, region: Any, labels: Tensor
) -> None:
    """One implementation's observation, window and received sums."""
    query, key = case.query, case.key
    seen = observe(query, key, case.value, padded=case.padded, keep=keep, **case.terms)
    check_observation(case, seen, truth)
    if region is not None:
        check_region(region, window(query, key, seen.lse, region, seen.scoring), truth)
    sums = received(query, key, seen.lse, seen.scoring, labels=labels)
    check_received(sums, labels, truth)


def _sizes(chance: Random, *choices: tuple[int, ...]) -> Iterator[int]:
    """One of each of the choices."""
    return (chance.choice(sizes) for sizes in choices)


def check_pair_sums(chance: Random) -> None:
    """Sums of 1 / (1 + a b) over hidden units, and their gradients."""
    rows, queries, keys, hidden = _sizes(
        chance, (1, 2, 0), (1, 3, 13, 0), (1, 4, 11, 0), (1, 7, 16, 67, 0)
    )
    left = with_extremes(chance, torch.rand(rows, queries, hidden) * 3).abs()
    right = with_extremes(chance, torch.rand(rows, keys, hidden) * 3).abs()
    v, gradient = torch.randn(hidden), torch.randn(rows, keys, queries).mT
    if not supports_pair_sums(left, right, v, gradient):
        return
    r, g = 1 / (1 + left.double()[:, :, None] * right.double()[:, None]), gradient.double()
    nothing = torch.zeros(1, dtype=torch.bool)
    tolerance = torch.tensor(UNIT * (8 + hidden)) * v.abs().sum()
    compare("pair sums", pair_sums(left, right, v), r @ v.double(), tolerance, nothing)
    slope = g[..., None] * r * (1 - r)
    expected = (slope.sum(2), slope.sum(1), (g[..., None] * r).sum(2))
    slopes = pair_gradients(left, right, gradient)
    size = UNIT * (8 + keys + queries) * (1 + g.abs().sum())
    for name, got, wanted in zip(("left", "right", "v"), slopes, expected, strict=True):
        compare(f"gradient to {name}", got, wanted, size, nothing)


def check_matvec(chance: Random) -> None:
    """x W^T + b in float32."""
    rows = chance.randint(0, MAX_MATVEC_ROWS)
    dim, outs = _sizes(chance, (1, 5, 16, 31, 64, 257, 0), (1, 3, 17, 67, 0))
    x = tensor(chance, torch.float32, 1.0, 1, 1, rows, dim)[0, 0]
    weight = with_extremes(chance, torch.randn(outs, dim))
    bias = torch._neg_view(torch.randn(outs)) if chance.random() < 0.5 else None
    if not supports_matvec(weight):
        return
    added = torch.zeros(outs).double() if bias is None else bias.double()
    terms = _finite(x) @ _finite(weight).T + added.abs()
    expected = x.double() @ weight.double().T + added
    tolerance = UNIT * (8 + dim) * terms + DENORMAL * (8 + dim)
    compare("matvec", native_matvec(x, weight, bias), expected, tolerance, terms > LIMIT)


def _finite(numbers: Tensor) -> Tensor:
    """The sizes of numbers in float64, with 0 for those that are not finite."""
    return numbers.double().abs().nan_to_num(posinf=0.0)


def check_int8(chance: Random) -> None:
    """x (scale W)^T + b with W in int8; x is rounded too."""
    rows = chance.choice((1, 2, 5, 6, 17, 0))
    dim, outs = _sizes(chance, (1, 17, 64, 129, 200, 0), (1, 3, 16, 67, 0))
    x = with_extremes(chance, torch.randn(rows, dim))
    weight = torch.randint(-128, 128, (outs, dim), dtype=torch.int8)
    scale, bias = torch.rand(outs), torch.randn(outs) if chance.random() < 0.5 else None
    if not supports_int8_matvec(weight, scale):
        return
    matrix = weight.double() * scale.double()[:, None]
    added = torch.zeros(outs).double() if bias is None else bias.double()
    step = x.double().abs().amax(1, keepdim=True) / 127 if dim else torch.zeros(rows, 1).double()
    undefined = (~x.isfinite()).any(1, keepdim=True)
    expected = (x.double().nan_to_num(0.0) @ matrix.T + added).masked_fill(undefined, math.nan)
    tolerance = 0.51 * step * matrix.abs().sum(1) + UNIT * (8 + dim) * (1 + expected.abs())
    got = native_int8_matvec(x, weight, scale, bias)
    compare("int8", got, expected, tolerance.nan_to_num(), expected.abs() > LIMIT)


def check_topk(chance: Random) -> None:
    """The largest logits of each row and their logsumexp."""
    rows, columns = _sizes(chance, (1, 2, 5, 0), (1024, 1025, 4099))
    count = chance.choice((1, 2, 8, 63, 64))
    values = torch.randn(rows, columns) * chance.choice((0.0, 1.0, 100.0))
    if chance.random() < 0.3:
        values = values.round()  # ties
    if rows and chance.random() < 0.5:
        extremes = torch.tensor(EXTREMES)[torch.randint(len(EXTREMES), (columns,))]
        chosen = torch.rand(columns) < chance.choice((0.001, 0.1, 1.0))
        values[0] = torch.where(chosen, extremes, values[0])
    if not supports_topk(values, count):
        return
    order = [_falling_columns(row)[:count] for row in values.tolist()]
    expected = torch.tensor(order, dtype=torch.long).view(rows, count)
    largest, found = native_topk(values, count)
    nothing, zero = torch.zeros(1, dtype=torch.bool), torch.zeros(())
    compare("top-k columns", found, expected.double(), zero, nothing)
    compare("top-k values", largest, values.gather(1, expected).double(), zero, nothing)
    sums = values.double().logsumexp(1)
    compare("logsumexp", native_logsumexp(values), sums, 2e-6 * (1 + sums.abs()), nothing)


def _falling_columns(row: list[float]) -> list[int]:
    """The columns by falling value: NaN is larger than any number, of equals the first is first."""
    return sorted(range(len(row)), key=lambda c: (0, 0.0) if math.isnan(row[c]) else (1, -row[c]))


def _run_in_process(seed: int, first: int, stop: int) -> Iterator[tuple[int, str, str]]:
    """Run cases in a new process; yields the number, kind and detail of each, kind "" if it passed.

    It ends after a case that the process did not survive.
    """
    command = [sys.executable, "-m", "fuzz.kernels", str(seed), str(first), str(stop)]
    folder = Path(__file__).parents[1]
    setting = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    number, hung = first, False
    with tempfile.TemporaryFile() as errors:
        worker = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=setting
        )
        try:
            for event in _events(worker):
                hung, number = event is None, number if event is None else event["case"]
                if event is not None and "kind" in event:
                    yield number, event["kind"], event["detail"]
        finally:
            worker.kill()
            worker.communicate()
        errors.seek(0)
        last_words = errors.read().decode(errors="replace")[-2000:]
    if hung:
        yield number, "hang", f"more than {SECONDS:.0f} s"
    elif worker.returncode != 0:
        name = signal.Signals(-worker.returncode).name if worker.returncode < 0 else "exit"
        yield number, "signal", f"{name} {worker.returncode}\n{last_words}"


def _events(worker: Any) -> Iterator[dict[str, Any] | None]:
    """What the worker said, until it ends; a last None if it was silent for too long."""
    pipe, begun = worker.stdout.fileno(), b""
    while select.select([pipe], [], [], SECONDS)[0]:
        part = os.read(pipe, 1 << 16)
        *lines, begun = (begun + part).split(b"\n")
        yield from map(json.loads, lines)
        if not part:
            worker.wait()
            return
    yield None


def _work(seed: int, first: int, stop: int) -> None:
    """What the process of the cases does."""
    for number in range(first, stop):
        _say(case=number)
        kind, detail = "", ""
        try:
            run_case(seed, number)
        except WrongNumberError as error:
            kind, detail = "wrong number", str(error)
        except Exception:
            kind, detail = "traceback", traceback.format_exc()[-3000:]
        _say(case=number, kind=kind, detail=detail)


def _say(**event: object) -> None:
    """Write one line for the parent, at once."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _work(*map(int, sys.argv[1:4]))
