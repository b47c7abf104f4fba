"""What every kernel must obey, against the plain reference."""

import torch
from torch import Tensor

from regard.kernels.observe import Observation, ObserveOptions
from regard.kernels.observe.call import Call

from .reference import Reference, pooled, reference, rounding

EVERYTHING = ObserveOptions(top=5, atlas=4)


def assert_close(name: str, got: Tensor, wanted: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(
        got.double(), wanted, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}"
    )


def assert_tells_the_truth(call: Call, seen: Observation, tolerance: float = 2e-5) -> None:
    wanted = reference(call)
    tolerance *= rounding(call, wanted.lse)
    kind = seen.context.dtype
    loose = max(tolerance, {torch.bfloat16: 1e-2, torch.float16: 2e-3}.get(kind, 0))
    assert_close("lse", seen.lse, wanted.lse, tolerance)
    assert_close("context", seen.context, wanted.context, loose)
    for name, numbers in wanted.numbers.items():
        found = getattr(seen.statistics, name)
        far = max(call.sizes[2:]) + abs(call.scoring.offset) if name == "distance" else 1
        assert_close(name, found / far, numbers / far, tolerance)
    assert_keys(wanted, seen, tolerance)
    mean, largest = pooled(wanted.weights, seen.atlas.rows, seen.atlas.columns)
    assert_close("atlas.mean", seen.atlas.mean, mean, tolerance)
    assert_close("atlas.largest", seen.atlas.largest, largest, tolerance)


def assert_keys(wanted: Reference, seen: Observation, tolerance: float) -> None:
    """Keys may differ from the reference only among weights that are equal but for rounding."""
    for weights, keys in (
        (seen.statistics.largest[..., None], seen.statistics.largest_key[..., None]),
        (seen.top.weights, seen.top.keys),
    ):
        there = wanted.weights.gather(-1, keys.long().clamp(min=0))
        assert_close("weights of keys", weights, there * (keys >= 0), tolerance)
    most = min(seen.top.weights.shape[-1], wanted.weights.shape[-1])
    best = wanted.weights.topk(most, -1).values
    assert_close("top.weights", seen.top.weights[..., :most], best, tolerance)
    assert bool((seen.top.weights[..., most:] == 0).all())
    assert bool((seen.top.keys[..., most:] == -1).all())
