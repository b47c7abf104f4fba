"""Random calls of attention for the kernel campaign: sizes, layouts, extreme numbers and terms.

Every mask and bias is made twice: as the value of `regard.masks` that the kernels get, and as the
dense tensor that the reference uses, from the definition and not from the package's own code.
"""

import math
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard import masks

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
EXTREMES = (1e30, -1e30, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 0.0, 65504.0)
LAYOUTS = ("plain", "heads last", "transposed", "sliced", "expanded", "negated", "offset", "rows")
SIDES = (None, 0, 1, 7, 40, -3, 2**31, 2**62, 2**64)
OFFSETS = (0, 0, 0, 3, 41, -5, 2**31, 2**40, -(2**40), 2**62 - 1)
SOFTCAPS = (None, None, None, None, 0.5, 5.0, 50.0, 1e4, 1e6, 1e30, math.inf)

Sizes = tuple[int, int, int, int]  # batch, heads, queries, keys


@dataclass
class AttentionCase:
    """One call: the arguments of `observe`, and the dense mask and bias for the reference."""

    query: Tensor
    key: Tensor
    value: Tensor
    terms: dict[str, Any]
    padded: Tensor | None
    seen: Tensor
    added: Tensor

    @property
    def sizes(self) -> Sizes:
        """Batch, heads, queries, keys."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]

    def __str__(self) -> str:
        shapes = f"{tuple(self.query.shape)} x {tuple(self.key.shape)}, {self.query.dtype}"
        return f"{shapes}, {self.terms}, padded={self.padded is not None}"


def attention_case(chance: Random) -> AttentionCase:
    """A legal call of any kind."""
    key_heads, group = chance.choice((1, 1, 2, 3)), chance.choice((1, 1, 2, 3))
    batch = chance.choice((1, 1, 2, 3, 0) if chance.random() < 0.2 else (1, 1, 2))
    queries = chance.choice((1, 2, 5, 8, 13, 16, 47, 53, 101, 0))
    keys = chance.choice((1, 2, 7, 8, 17, 61, 128, 131, 257, 0))
    dim, width = chance.choice((1, 2, 5, 8, 17, 0)), chance.choice((1, 3, 8, 19, 0))
    dtype, sizes = chance.choice(DTYPES), (batch, key_heads * group, queries, keys)
    loud = chance.choice((1e-3, 1.0, 1.0, 3.0, 30.0))
    query = tensor(chance, dtype, loud, batch, sizes[1], queries, dim)
    key = tensor(chance, dtype, loud, batch, key_heads, keys, dim)
    value = tensor(chance, dtype, 1.0, batch, key_heads, keys, width)
    offset = chance.choice(OFFSETS)
    mask, seen = any_mask(chance, sizes, offset)
    bias, added = any_bias(chance, sizes, offset, dtype)
    terms = {
        "scale": chance.choice((None, None, 0.25, 1.0, -0.5, 0.0)),
        "mask": mask,
        "bias": bias,
        "offset": offset,
        "softcap": chance.choice(SOFTCAPS),
        "sink": with_extremes(chance, torch.randn(sizes[1])) if chance.random() < 0.3 else None,
    }
    padded = torch.rand(batch, keys) < 0.3 if chance.random() < 0.4 else None
    return AttentionCase(query, key, value, terms, padded, seen, added)


def with_extremes(chance: Random, numbers: Tensor) -> Tensor:
    """The numbers, some of them replaced by extreme ones in one of eight tensors."""
    if numbers.numel() and chance.random() < 0.12:
        flat = numbers.view(-1)
        for _ in range(chance.choice((1, 1, 2, 5))):
            flat[chance.randrange(len(flat))] = chance.choice(EXTREMES)
    return numbers


def tensor(chance: Random, dtype: torch.dtype, loud: float, *shape: int) -> Tensor:
    """Numbers of this dtype and shape, in one of the layouts."""
    batch, heads, length, dim = shape
    kind = chance.choice(LAYOUTS)
    full = {
        "heads last": (batch, length, heads, dim),
        "transposed": (batch, heads, dim, length),
        "sliced": (batch, heads, length, 2 * dim),
        "expanded": (batch, 1, length, dim),
        "offset": (batch, heads, length + 3, dim),
        "rows": (batch, heads, 2 * length, dim),
    }.get(kind, shape)
    numbers = torch.randn(full) * loud
    if chance.random() < 0.1:
        numbers = numbers[..., :1, :].expand(full).clone()  # every row the same
    numbers = with_extremes(chance, numbers).to(dtype)
    return _laid_out(kind, numbers, shape)


def _laid_out(kind: str, numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A view of this shape on numbers that were made for the layout."""
    views = {
        "heads last": lambda: numbers.transpose(1, 2),
        "transposed": lambda: numbers.mT,
        "sliced": lambda: numbers[..., ::2],
        "expanded": lambda: numbers.expand(shape),
        "negated": lambda: torch._neg_view(numbers),
        "offset": lambda: numbers[:, :, 3:],
        "rows": lambda: numbers[:, :, ::2],
    }
    return views.get(kind, lambda: numbers)()


def distances(sizes: Sizes, offset: int) -> Tensor:
    """The position of each key minus that of each query."""
    _, _, queries, keys = sizes
    return torch.arange(keys) - (torch.arange(queries) + offset)[:, None]


def _within(ahead: Tensor, left: int | None, right: int | None) -> Tensor:
    """True where a window shows a key; sides beyond int64 are no limit, or hide everything."""
    seen, limit = torch.ones_like(ahead, dtype=torch.bool), 2**63 - 1
    if left is not None:
        seen = seen & (ahead >= max(-limit, -left))
    if right is not None:
        seen = seen & (ahead <= min(limit, right))
    return seen


def any_mask(chance: Random, sizes: Sizes, offset: int, depth: int = 0) -> tuple[Any, Tensor]:
    """A mask, or None for none, and which keys it shows, as the axes batch head query key."""
    (batch, heads, queries, keys), ahead = sizes, distances(sizes, offset)
    kinds = ["none", "causal", "window", "window", "lengths", "padding", "segments", "explicit"]
    kind = chance.choice(kinds if depth > 1 else [*kinds, "and", "or", "not"])
    if kind in ("and", "or", "not"):
        return _joined_mask(chance, kind, sizes, offset, depth)
    if kind == "none":
        return None, torch.ones(1, 1, 1, 1, dtype=torch.bool)
    if kind in ("causal", "window"):
        left, right = (None, 0) if kind == "causal" else _window_sides(chance)
        return masks.window(left, right), _within(ahead, left, right)[None, None]
    if kind == "lengths":
        counts = [chance.choice((0, keys, keys // 2, -(2**63), 2**62)) for _ in range(batch)]
        seen = torch.arange(keys) < torch.tensor(counts, dtype=torch.long)[:, None]
        return masks.lengths(torch.tensor(counts, dtype=torch.long)), seen[:, None, None]
    if kind == "padding":
        real = torch.rand(batch, keys) > 0.3
        return masks.padding(real), real[:, None, None]
    if kind == "segments":
        one, two = torch.randint(3, (batch, queries)), torch.randint(3, (batch, keys))
        return masks.segments(one, two), (one[:, :, None] == two[:, None])[:, None]
    shape = [size if chance.random() < 0.5 else 1 for size in (batch, heads, queries, keys)]
    seen = torch.rand(shape) > 0.4
    return masks.explicit(seen), seen


def _window_sides(chance: Random) -> tuple[int | None, int | None]:
    """Two sides that do not exclude each other."""
    left, right = chance.choice(SIDES), chance.choice(SIDES)
    if left is not None and right is not None and left + right < 0:
        return None, right
    return left, right


def _joined_mask(
    chance: Random, kind: str, sizes: Sizes, offset: int, depth: int
) -> tuple[Any, Tensor]:
    """Two masks joined by `and` or `or`, or one inverted."""
    one, seen = any_mask(chance, sizes, offset, depth + 1)
    one = masks.everything() if one is None else one
    if kind == "not":
        return ~one, ~seen
    two, other = any_mask(chance, sizes, offset, depth + 1)
    two = masks.everything() if two is None else two
    return (one & two, seen & other) if kind == "and" else (one | two, seen | other)


def any_bias(chance: Random, sizes: Sizes, offset: int, dtype: torch.dtype) -> tuple[Any, Tensor]:
    """A bias, or None for none, and its numbers, as the axes batch head query key."""
    kind = chance.choice(("none", "none", "tensor", "hidden", "lowest", "negated", "alibi", "sum"))
    numbers = torch.randn([size if chance.random() < 0.5 else 1 for size in sizes])
    numbers = with_extremes(chance, numbers)
    if kind == "hidden":
        numbers = numbers.masked_fill(torch.rand(numbers.shape) < 0.3, -math.inf)
    numbers = numbers.to(chance.choice((dtype, torch.float32, torch.float64)))
    if kind == "lowest":
        lowest = torch.finfo(numbers.dtype).min
        numbers = numbers.masked_fill(torch.rand(numbers.shape) < 0.3, lowest)
    if kind == "none":
        return None, torch.zeros(1, 1, 1, 1)
    if kind == "negated":
        numbers = torch._neg_view(numbers)
    if kind not in ("alibi", "sum") or abs(offset) > 2**20:
        return masks.tensor_bias(numbers), numbers
    slopes = _alibi_slopes(sizes[1])
    added = -slopes[None, :, None, None] * distances(sizes, offset).abs()
    if kind == "alibi":
        return masks.alibi(sizes[1]), added
    return masks.alibi(sizes[1]) + masks.tensor_bias(numbers), added + numbers


def _alibi_slopes(heads: int) -> Tensor:
    """The slopes of Press et al. 2022, section 3 and appendix A; a bias is added in float32."""
    below = 2 ** int(math.log2(heads))
    first = [2 ** (-8 * (head + 1) / below) for head in range(below)]
    more = [2 ** (-8 * (head + 1) / (2 * below)) for head in range(2 * below)][::2]
    return torch.tensor((first + more)[:heads])
