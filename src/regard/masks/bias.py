"""Biases: numbers added to the scores before they are normalised."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.masks.value import Area, Part, Value, fit_broadcast, four_axes, sizes_of

Added = Float[Tensor, "batch head query key"]


class Bias(Value, ABC):
    """What is added to the scores; two biases are joined by `+`.

    >>> from regard.masks import alibi
    >>> alibi(heads=2).dense(2, 2)[0, 0].tolist()
    [[-0.0, -0.0625], [-0.0625, -0.0]]
    """

    @abstractmethod
    def cut(self, area: Area) -> Added:
        """What is added to the scores of the area."""

    def dense(
        self, queries: int, keys: int, *, offset: int = 0, device: torch.device | None = None
    ) -> Added:
        """The whole bias as a tensor."""
        return self.cut(Area(range(queries), range(keys), offset, device))

    def __add__(self, other: "Bias") -> "Bias":
        return SumOf((self, other))


@dataclass(frozen=True, eq=False, repr=False)
class Alibi(Bias):
    """Head h adds -slopes[h] times the distance between query and key (Press et al. 2022)."""

    slopes: tuple[float, ...]

    def cut(self, area: Area) -> Added:
        """Linear in the distance."""
        slopes = torch.tensor(self.slopes, device=area.device)
        return -slopes[None, :, None, None] * area.ahead().abs()

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """One slope for each head."""
        fit_broadcast(
            "ALiBi", torch.Size((1, len(self.slopes), 1, 1)), (batch, heads, queries, keys)
        )

    def within(self, part: Part) -> "Alibi":
        """The slopes of the part's heads."""
        if part.heads is None or len(self.slopes) == 1:
            return self
        return Alibi(tuple(self.slopes[head] for head in part.heads))

    def __repr__(self) -> str:
        return f"alibi({len(self.slopes)})"


@dataclass(frozen=True, eq=False, repr=False)
class T5Buckets(Bias):
    """Head h adds table[bucket, h], the bucket being that of the distance (Raffel et al. 2020)."""

    table: Float[Tensor, "bucket head"]
    both_ways: bool
    far: int

    def cut(self, area: Area) -> Added:
        """The table's row for each pair."""
        bucket = _bucket(area.ahead(), len(self.table), self.both_ways, self.far)
        return self.table.to(device=area.device)[bucket].permute(2, 0, 1)[None]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """One column for each head."""
        sizes = torch.Size((1, self.table.shape[1], 1, 1))
        fit_broadcast("the bucket table", sizes, (batch, heads, queries, keys))

    def within(self, part: Part) -> "T5Buckets":
        """The columns of the part's heads."""
        if part.heads is None or self.table.shape[1] == 1:
            return self
        return T5Buckets(self.table[:, part.heads], self.both_ways, self.far)

    def __repr__(self) -> str:
        return f"t5_buckets({sizes_of(self.table)}, far={self.far})"


@dataclass(frozen=True, eq=False, repr=False)
class TensorBias(Bias):
    """The numbers themselves."""

    added: Added

    def cut(self, area: Area) -> Added:
        """The area of the tensor."""
        return area.of(self.added)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Each axis is of size one or that of the call."""
        fit_broadcast("the bias", self.added.shape, (batch, heads, queries, keys))

    def within(self, part: Part) -> "TensorBias":
        """The part of the tensor."""
        return TensorBias(part.of(self.added))

    def __repr__(self) -> str:
        return f"tensor_bias({sizes_of(self.added)})"


@dataclass(frozen=True, eq=False, repr=False)
class SumOf(Bias):
    """All parts added."""

    parts: tuple[Bias, ...]

    def cut(self, area: Area) -> Added:
        """The sum of the parts."""
        added = self.parts[0].cut(area)
        for part in self.parts[1:]:
            added = added + part.cut(area)
        return added

    def __repr__(self) -> str:
        return " + ".join(map(str, self.parts))


def alibi(heads: int) -> Bias:
    """Attention with linear biases (Press et al. 2022): the slopes of section 3.

    They are a geometric sequence from 2^(-8/heads); for a number of heads that is no power of
    two, every second slope of the next power is taken to fill up.
    """
    if heads < 1:
        raise InputError(f"alibi expected at least one head, got {heads}")
    whole = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / whole) for h in range(whole)]
    slopes += [2 ** (-4 * (2 * h + 1) / whole) for h in range(heads - whole)]
    return Alibi(tuple(slopes))


def t5_buckets(
    table: Float[Tensor, "bucket head"], *, both_ways: bool = True, far: int = 128
) -> Bias:
    """The relative bias of T5 (Raffel et al. 2020, section 2.1).

    Near distances have a bucket each, farther ones share buckets that grow with the logarithm,
    and beyond `far` all are one. `both_ways` gives the future half of the buckets; without it
    the future is all distance zero, for causal attention.
    """
    if table.dim() != 2 or table.shape[0] < 4:
        raise ShapeError(
            f"t5_buckets expected a table (bucket >= 4, head), got {tuple(table.shape)}"
        )
    return T5Buckets(table, both_ways, far)


def tensor_bias(added: Float[Tensor, "..."]) -> Bias:
    """The numbers to add; axes (query key), (batch query key) or with head second."""
    if not added.is_floating_point():
        raise ShapeError(
            f"tensor_bias(...) expected floating-point numbers, got {added.dtype}; "
            "for True where a key is seen use masks.explicit"
        )
    return TensorBias(four_axes("a bias", added))


def _bucket(
    ahead: Int[Tensor, "query key"], buckets: int, both_ways: bool, far: int
) -> Int[Tensor, "query key"]:
    start = torch.zeros_like(ahead)
    if both_ways:
        buckets //= 2
        start, distance = buckets * (ahead > 0), ahead.abs()
    else:
        distance = (-ahead).clamp_min(0)
    exact = buckets // 2
    growth = torch.log(distance.clamp_min(1) / exact) / math.log(far / exact)
    shared = exact + (growth * (buckets - exact)).to(torch.long)
    return start + torch.where(distance < exact, distance, shared.clamp_max(buckets - 1))
