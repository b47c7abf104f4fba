"""Additive scores v . tanh(a_i + b_j) of all pairs, without computing a tanh for each pair.

With r = 1 / (1 + e^2x), tanh(x) = 1 - 2 r; and e^2(a+b) = e^2a e^2b. So one exponential for each
element of a and of b replaces one tanh for each element of query x key x hidden, and a pair costs
a product and a reciprocal. The exponents are shifted for each hidden unit by the middle of a's
range; while that range is moderate, a product overflows or underflows only where r is 0 or 1 to the
last bit anyway. tanh itself is used where the range is wider, and where there are so few queries
that the exponentials of the keys would cost as much as the pairs.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.memory import has_plain_memory
from regard.kernels.pair_sums import pair_gradients, pair_sums, supports_pair_sums

A = Float[Tensor, "row query hidden"]
B = Float[Tensor, "row key hidden"]
V = Float[Tensor, " hidden"]
Block = Float[Tensor, "row query key hidden"]
BlockIndex = tuple[slice, slice, slice]  # rows, queries, keys

_BLOCK = 1 << 18  # elements of query x key x hidden held at a time: they stay in the CPU's cache
_BLOCK_QUERIES = 16
_LEAST_QUERIES = 4  # with fewer queries, tanh is as fast
# e^(2 * 20) is far from float32's limits, and tanh(44 - 20) is 1 to the last bit
_HALF_RANGE = 20.0


def additive_scores(
    a: Float[Tensor, "batch head query hidden"], b: Float[Tensor, "batch head key hidden"], v: V
) -> Float[Tensor, "batch head query key"]:
    """v . tanh(a_i + b_j) for each query i and key j, holding one block of pairs at a time."""
    # The compiler fuses tanh into the sum and holds nothing. Tensors without numbers in memory, or
    # whose operations torch follows, need plain operations.
    if torch.compiler.is_compiling() or not has_plain_memory(a, b, v):
        return (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v).sum(dim=-1)
    scores: Tensor = _AdditiveScores.apply(a.flatten(0, 1), b.flatten(0, 1), v)  # type: ignore[no-untyped-call]
    return scores.view(*a.shape[:-1], b.shape[-2])


class _AdditiveScores(torch.autograd.Function):
    """The scores; the backward pass recomputes the blocks instead of keeping them."""

    @staticmethod
    def forward(ctx: Any, a: A, b: B, v: V) -> Float[Tensor, "row query key"]:
        ctx.save_for_backward(a, b, v)
        left, right, plain = _exponentials(a, b)
        twice = v.to(left.dtype) * -2.0
        if not plain and supports_pair_sums(left, right, twice):
            scores = pair_sums(left, right, twice)
        else:
            scores = left.new_empty(*a.shape[:2], b.shape[1])
            for row, query, key in _blocks(a, b):
                scores[row, query, key] = _pair_r(left[row, query], right[row, key], plain) @ twice
        return scores.add_(v.to(left.dtype).sum()).to(a.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Float[Tensor, "row query key"]) -> tuple[A, B, V]:
        """The gradients to a, b and v, by d tanh(x) / dx = 1 - tanh(x)^2 = 4 r (1 - r)."""
        a, b, v = ctx.saved_tensors
        left, right, plain = _exponentials(a, b)
        gradient = gradients[0].to(left.dtype)
        sums = (
            pair_gradients
            if not plain and supports_pair_sums(left, right, gradient)
            else partial(_gradient_sums, plain=plain)
        )
        a_sum, b_sum, r_sum = sums(left, right, gradient)
        to_v = gradient.sum() - 2.0 * r_sum.sum(dim=(0, 1))
        slope = 4.0 * v.to(left.dtype)
        return (a_sum * slope).to(a.dtype), (b_sum * slope).to(b.dtype), to_v.to(v.dtype)


def _gradient_sums(
    left: A, right: B, gradient: Float[Tensor, "row query key"], *, plain: bool
) -> tuple[A, B, A]:
    """Sums of gradient * r (1 - r) over keys and over queries, and of gradient * r over keys."""
    a_sum, b_sum, r_sum = torch.zeros_like(left), torch.zeros_like(right), torch.zeros_like(left)
    for row, query, key in _blocks(left, right):
        r = _pair_r(left[row, query], right[row, key], plain)
        g = gradient[row, query, key][..., None]
        r_sum[row, query] += (r * g).sum(dim=2)
        derivative = torch.addcmul(r, r, r, value=-1.0).mul_(g)  # g (r - r^2)
        a_sum[row, query] += derivative.sum(dim=2)
        b_sum[row, key] += derivative.sum(dim=1)
    return a_sum, b_sum, r_sum


def _exponentials(a: A, b: B) -> tuple[A, B, bool]:
    """Shifted e^2a and e^2b, and False; or a and b themselves, and True, where tanh is used."""
    if a.element_size() < 4:
        a, b = a.float(), b.float()
    if a.shape[1] < _LEAST_QUERIES:
        return a, b, True
    low, high = a.amin(dim=(0, 1)), a.amax(dim=(0, 1))
    if not bool(((high - low) / 2 <= _HALF_RANGE).all()):
        return a, b, True
    middle = (low + high) / 2
    return torch.exp(2.0 * (a - middle)), torch.exp(2.0 * (b + middle)), False


def _pair_r(left: A, right: B, plain: bool) -> Block:
    """r = (1 - tanh(a + b)) / 2 of each pair in a block, from the results of `_exponentials`."""
    left, right = left[:, :, None], right[:, None]
    if plain:
        return torch.tanh(left + right).mul_(-0.5).add_(0.5)
    one = torch.ones((), dtype=left.dtype, device=left.device)
    return torch.addcmul(one, left, right).reciprocal_()


def _blocks(a: A, b: B) -> Iterator[BlockIndex]:
    """Cut all pairs into blocks of at most _BLOCK elements, several rows at once if they fit."""
    (rows, queries, hidden), keys = a.shape, b.shape[1]
    query = min(queries, _BLOCK_QUERIES)
    key = max(1, min(keys, _BLOCK // (query * hidden)))
    row = max(1, _BLOCK // (query * key * hidden)) if (query, key) == (queries, keys) else 1
    for r in range(0, rows, row):
        for i in range(0, queries, query):
            for j in range(0, keys, key):
                yield slice(r, r + row), slice(i, i + query), slice(j, j + key)
