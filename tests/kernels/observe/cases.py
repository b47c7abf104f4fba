"""Calls of attention of every kind, one for each seed.

Sizes are distinct primes, so that no transposition passes by luck.
"""

import math
from random import Random

import torch
from torch import Tensor

from regard import masks
from regard.kernels.observe.call import Call, Scoring

Sizes = tuple[int, int, int, int]


def broadcast(chance: Random, sizes: Sizes) -> tuple[int, ...]:
    return tuple(size if chance.random() < 0.5 else 1 for size in sizes)


def any_mask(chance: Random, sizes: Sizes) -> masks.Mask | None:
    batch, _, queries, keys = sizes
    kinds = ["none", "causal", "window", "lengths", "padding"]
    kind = chance.choice([*kinds, "segments", "explicit", "joined", "either", "not"])
    if kind in ("joined", "either"):
        one, two = any_mask(chance, sizes), any_mask(chance, sizes)
        one, two = one or masks.everything(), two or masks.causal()
        return one & two if kind == "joined" else one | two
    sides = [None, 0.0, 1.0, 7.0, 40.0]
    choices = {
        "none": lambda: None,
        "causal": masks.causal,
        "window": lambda: masks.window(chance.choice(sides), chance.choice(sides)),
        "lengths": lambda: masks.lengths([chance.randint(0, keys) for _ in range(batch)]),
        "padding": lambda: masks.padding(torch.rand(batch, keys) > 0.3),
        "segments": lambda: masks.segments(
            torch.randint(3, (batch, queries)), torch.randint(3, (batch, keys))
        ),
        "explicit": lambda: masks.explicit(torch.rand(broadcast(chance, sizes)) > 0.4),
        "not": lambda: ~(any_mask(chance, sizes) or masks.causal()),
    }
    return choices[kind]()


def any_bias(chance: Random, sizes: Sizes, dtype: torch.dtype) -> masks.Bias | None:
    kind = chance.choice(["none", "none", "tensor", "hidden", "alibi", "t5", "sum"])
    added = torch.randn(broadcast(chance, sizes)).to(dtype)
    if kind == "hidden":
        added = added.masked_fill(torch.rand(added.shape) < 0.3, -math.inf)
    if kind == "sum":
        return masks.alibi(sizes[1]) + masks.tensor_bias(added)
    return {
        "none": None,
        "tensor": masks.tensor_bias(added),
        "hidden": masks.tensor_bias(added),
        "alibi": masks.alibi(sizes[1]),
        "t5": masks.t5_buckets(torch.randn(8, sizes[1])),
    }[kind]


def laid_out(chance: Random, *shape: int) -> Tensor:
    """A tensor of this shape in one of the layouts that models produce."""
    batch, heads, length, dim = shape
    kind = chance.choice(["plain", "heads last", "transposed", "sliced", "expanded"])
    if kind == "heads last":
        return torch.randn(batch, length, heads, dim).transpose(1, 2)
    if kind == "transposed":
        return torch.randn(batch, heads, dim, length).mT
    if kind == "sliced":
        return torch.randn(batch, heads, length, 2 * dim)[..., ::2]
    if kind == "expanded":
        return torch.randn(batch, 1, length, dim).expand(shape)
    return torch.randn(shape)


def a_call(seed: int, dtype: torch.dtype = torch.float32) -> Call:
    chance = Random(seed)
    torch.manual_seed(seed)
    batch, key_heads = chance.choice([(1, 1), (2, 1), (1, 2), (2, 3)])
    heads = key_heads * chance.choice([1, 2, 5])
    queries = chance.choice([1, 2, 7, 13, 47, 53, 101, 151])
    keys = chance.choice([1, 3, 11, 17, 61, 131, 149, 307])
    dim, wide = chance.choice([1, 5, 8, 17]), chance.choice([3, 8, 19, 32])
    sizes = (batch, heads, queries, keys)
    louder = chance.choice([1.0, 1.0, 4.0, 1e2])
    query = laid_out(chance, batch, heads, queries, dim) * louder
    key = laid_out(chance, batch, key_heads, keys, dim) * louder
    value = laid_out(chance, batch, key_heads, keys, wide)
    scoring = Scoring(
        scale=chance.choice([None, 0.25, 1.0]),
        mask=any_mask(chance, sizes),
        bias=any_bias(chance, sizes, dtype),
        offset=chance.choice([0, 0, 3, 41, -5]),
        softcap=chance.choice([None, None, 5.0]),
        sink=torch.randn(heads) if chance.random() < 0.5 else None,
    )
    padded = torch.rand(batch, keys) < 0.3 if chance.random() < 0.5 else None
    return Call(query.to(dtype), key.to(dtype), value.to(dtype), scoring, padded)
