"""Compares what the kernels return with the reference; a difference raises WrongNumberError."""

import math
from random import Random

import torch
from torch import Tensor

from fuzz.kernel_cases import AttentionCase
from fuzz.kernel_reference import Reference, pooled
from regard.kernels.observe import Observation, Pooled, Received, Region

# How far a context may be off besides the error of its weights: the rounding of its dtype.
CONTEXT = {
    torch.float64: 1e-14,
    torch.float32: 1e-6,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-10,
}
SMALLEST = {torch.float16: 1e-7}  # the last bit of its denormal numbers


class WrongNumberError(Exception):
    """A number outside of its tolerance."""


def compare(name: str, got: Tensor, expected: Tensor, tolerance: Tensor, skip: Tensor) -> None:
    """Raise a WrongNumberError unless all numbers agree; NaN and infinities must be the same."""
    if got.shape != expected.shape:
        raise WrongNumberError(
            f"{name}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
        )
    got = got.double()
    same = (got == expected) | (got.isnan() & expected.isnan())
    near = (got - expected).abs() <= tolerance
    wrong = ~(same | near | skip)
    if wrong.any():
        where = tuple(wrong.nonzero()[0].tolist())
        allowed = tolerance.expand(got.shape)[where].item()
        raise WrongNumberError(
            f"{name}{list(where)}: {got[where].item()!r}, expected {expected[where].item()!r} "
            f"within {allowed:.3g}; {int(wrong.sum())} of {wrong.numel()} are wrong"
        )


def check_observation(case: AttentionCase, seen: Observation, truth: Reference) -> None:
    """Compare everything that an observation holds."""
    compare("lse", seen.lse, truth.lse, truth.error, truth.unknown)
    if seen.context is not None:
        _check_context(case, seen.context, truth)
    if seen.statistics is not None:
        _check_statistics(case, seen, truth)
    if seen.top is not None:
        _check_top(seen, truth)
    if seen.atlas is not None:
        skip = pooled_rows(truth.unknown, seen.atlas.rows)[..., None]
        error = pooled_rows(truth.error.masked_fill(truth.undefined, 0.0), seen.atlas.rows)
        total, largest = pooled(truth.weights, seen.atlas.rows, seen.atlas.columns)
        counts, _ = pooled(torch.ones_like(truth.weights), seen.atlas.rows, seen.atlas.columns)
        compare("atlas.mean", seen.atlas.mean, total / counts, error[..., None], skip)
        compare("atlas.largest", seen.atlas.largest, largest, error[..., None], skip)


def pooled_rows(numbers: Tensor, rows: int) -> Tensor:
    """The maximum over each `rows` of the last axis."""
    _, largest = pooled(numbers.double()[..., None], rows, 1)
    largest = largest[..., 0]
    return largest.bool() if numbers.dtype == torch.bool else largest


def _check_context(case: AttentionCase, context: Tensor, truth: Reference) -> None:
    """The context; a value that is not finite makes its column unknown unless nobody sees it."""
    dtype = case.value.dtype
    value = case.value.double().repeat_interleave(case.sizes[1] // case.key.shape[1], 1)
    size = value.abs().nan_to_num(posinf=0.0)
    largest = size.amax(2, keepdim=True) if size.shape[2] else size.new_zeros(1, 1, 1, 1)
    expected = truth.weights @ value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    expected = expected.masked_fill(truth.undefined[..., None], math.nan)
    tolerance = (truth.error[..., None] + CONTEXT[dtype]) * largest + SMALLEST.get(dtype, 1e-40)
    broken = (~value.isfinite()).any(2, keepdim=True) & ~truth.undefined[..., None]
    compare("context", context, expected, tolerance, truth.unknown[..., None] | broken)


def _check_statistics(case: AttentionCase, seen: Observation, truth: Reference) -> None:
    """Every statistic of a row, and the key with the largest weight."""
    keys, offset = case.sizes[3], case.terms["offset"]
    for name, expected in truth.statistics.items():
        factor = 1.0
        if name == "distance":
            factor = float(max(keys, case.sizes[2]) + abs(offset))
        if name == "entropy":
            factor = 4 + 2 * math.log(keys + 2)
        got = getattr(seen.statistics, name)
        compare(name, got, expected, truth.error * factor, truth.unknown)
    _check_keys(seen.statistics.largest[..., None], seen.statistics.largest_key[..., None], truth)


def _check_keys(weights: Tensor, keys: Tensor, truth: Reference) -> None:
    """Each key has the weight that is reported beside it, and no weight has the key -1."""
    if not truth.weights.shape[3]:
        if not bool((keys == -1).all()):
            raise WrongNumberError("a key is reported where there is none")
        return
    if bool(((keys < -1) | (keys >= truth.weights.shape[3])).any()):
        raise WrongNumberError(
            f"a key outside of the map: {keys.min().item()} .. {keys.max().item()}"
        )
    there = truth.weights.gather(-1, keys.long().clamp(min=0))
    there = torch.where(keys < 0, torch.zeros(()).double(), there)
    there = there.masked_fill(truth.undefined[..., None], math.nan)
    error, skip = truth.error[..., None], truth.unknown[..., None]
    compare("weights of keys", weights, there, error, skip)
    if bool(((keys != -1) & ~(weights > 0)).any()):
        raise WrongNumberError("a key is reported beside a weight of 0 or NaN")


def _check_top(seen: Observation, truth: Reference) -> None:
    """The largest weights in falling order, each key once."""
    weights, keys = seen.top.weights, seen.top.keys
    most = min(weights.shape[3], truth.weights.shape[3])
    error, skip = truth.error[..., None], truth.unknown[..., None]
    expected = torch.zeros(weights.shape, dtype=torch.float64)
    expected[..., :most] = truth.weights.topk(most, -1).values
    expected = expected.masked_fill(truth.undefined[..., None], math.nan)
    compare("top.weights", weights, expected, error, skip)
    _check_keys(weights, keys, truth)
    ordered = keys.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    if bool(twice.any()):
        raise WrongNumberError("a key is among the largest twice")


def any_region(chance: Random, case: AttentionCase) -> Region:
    """A rectangle of the map, possibly empty, with any zoom."""
    batch, heads, queries, keys = case.sizes
    rows = sorted(chance.randint(0, queries) for _ in range(2))
    columns = sorted(chance.randint(0, keys) for _ in range(2))
    zoom = chance.choice((1, 1, 2, 3, 8, 50, 2**31, 2**63, 2**64))
    place = (chance.randrange(heads), chance.randrange(batch))
    return Region(range(*rows), range(*columns), *place, zoom)


def check_region(region: Region, seen: Pooled, truth: Reference) -> None:
    """Compare the cells of a rectangle."""
    rows = slice(region.rows.start, region.rows.stop)
    columns = slice(region.columns.start, region.columns.stop)
    head = (region.example, region.head)
    weights, zoom = truth.weights[head][rows, columns], min(region.zoom, 10**6)
    if not weights.numel():
        if seen.mean.shape != region.cells:
            raise WrongNumberError(f"cells of an empty region: {tuple(seen.mean.shape)}")
        return
    down, across = min(zoom, weights.shape[0]), min(zoom, weights.shape[1])
    total, largest = pooled(weights, down, across)
    counts, _ = pooled(torch.ones_like(weights), down, across)
    error = truth.error[head].masked_fill(truth.undefined[head], 0.0)[rows]
    error = 2 * pooled_rows(error, down)[:, None]
    skip = pooled_rows(truth.unknown[head][rows], down)[:, None]
    compare("window.mean", seen.mean, total / counts, error, skip)
    compare("window.largest", seen.largest, largest, error, skip)


def check_received(seen: Received, labels: Tensor, truth: Reference) -> None:
    """Compare the sums of columns and of labels."""
    error = 2 * truth.error.masked_fill(truth.undefined, 0.0)
    unknown = truth.unknown.any(-1)[..., None]
    total = truth.weights.sum(2)
    compare("received.total", seen.total, total, error.sum(-1)[..., None], unknown)
    assert seen.by_label is not None
    count = seen.by_label.shape[3]
    member = (labels[:, :, None] == torch.arange(count)).double()
    by_label = (truth.weights @ member[:, None]).masked_fill(truth.undefined[..., None], math.nan)
    compare(
        "received.by_label", seen.by_label, by_label, error[..., None], truth.unknown[..., None]
    )
