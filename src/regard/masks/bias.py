"""Biases: numbers added to the scores before they are normalised."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.arguments import check_type
from regard.errors import InputError, ShapeError
from regard.masks.value import Area, Part, Value, fit_broadcast, four_axes, sizes_of

Added = Float[Tensor, "batch head query key"]


class Bias(Value, ABC):
    """Numbers that are added to the scores; `+` adds two biases.

    >>> from regard.masks import alibi
    >>> alibi(heads=2).dense(2, 2)[0, 0].tolist()
    [[-0.0, -0.0625], [-0.0625, -0.0]]
    """

    @abstractmethod
    def cut(self, area: Area) -> Added:
        """The bias of an area as a tensor."""

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
        """Minus the slope of each head times the distance of each pair."""
        slopes = torch.tensor(self.slopes, device=area.device)
        return -slopes[None, :, None, None] * area.ahead().abs()

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless there is one slope for each head, or one for all."""
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
    """Head h adds table[b, h], b being the bucket of the relative position (Raffel et al. 2020)."""

    table: Float[Tensor, "bucket head"]
    both_ways: bool
    far: int

    def cut(self, area: Area) -> Added:
        """The table's entry for each head and pair."""
        bucket = _bucket(area.ahead(), len(self.table), self.both_ways, self.far)
        return self.table.to(device=area.device)[bucket].permute(2, 0, 1)[None]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless the table has one column for each head, or one for all."""
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
    """The numbers of a tensor."""

    added: Added

    def cut(self, area: Area) -> Added:
        """The tensor restricted to the area."""
        return area.of(self.added)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless each axis has size one or the size of the call."""
        fit_broadcast("the bias", self.added.shape, (batch, heads, queries, keys))

    def within(self, part: Part) -> "TensorBias":
        """The tensor restricted to the part."""
        return TensorBias(part.of(self.added))

    def __repr__(self) -> str:
        return f"tensor_bias({sizes_of(self.added)})"


@dataclass(frozen=True, eq=False, repr=False)
class SumOf(Bias):
    """The sum of several biases."""

    parts: tuple[Bias, ...]

    def cut(self, area: Area) -> Added:
        """The sum of the biases of the area."""
        added = self.parts[0].cut(area)
        for part in self.parts[1:]:
            added = added + part.cut(area)
        return added

    def __repr__(self) -> str:
        return " + ".join(map(str, self.parts))


def alibi(heads: int) -> Bias:
    """Attention with linear biases, ALiBi, with the slopes of Press et al. 2022, section 3.

    The slopes are a geometric sequence that starts at 2^(-8/heads) with that same ratio. If the
    number of heads is not a power of two, the slopes of the power of two below it are completed by
    every second slope of the power above it.
    """
    check_type(heads, int, "alibi", "heads")
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

    Short distances have a bucket each, longer ones share buckets of logarithmically growing size,
    and all distances from `far` on share the last bucket. `both_ways` gives half of the buckets to
    keys ahead of the query; without it such keys count as distance zero, for causal attention.
    """
    check_type(table, Tensor, "t5_buckets", "table")
    if table.dim() != 2 or table.shape[0] < 4:
        raise ShapeError(
            f"t5_buckets expected a table (bucket >= 4, head), got {tuple(table.shape)}"
        )
    return T5Buckets(table, both_ways, far)


def tensor_bias(added: Float[Tensor, "..."]) -> Bias:
    """A bias with these numbers.

    The axes are (query key), (batch query key) or (batch head query key).
    """
    check_type(added, Tensor, "tensor_bias", "added")
    if not added.is_floating_point():
        raise ShapeError(
            f"tensor_bias(...) expected floating-point numbers, got {added.dtype}; "
            "for True where a key is seen use masks.explicit"
        )
    return TensorBias(four_axes("a bias", added))


def _bucket(
    ahead: Int[Tensor, "query key"], buckets: int, both_ways: bool, far: int
) -> Int[Tensor, "query key"]:
    """The bucket of each pair, from how far its key lies ahead of its query."""
    start = torch.zeros_like(ahead)
    if both_ways:
        buckets //= 2
        start, distance = buckets * (ahead > 0), ahead.abs()
    else:
        distance = (-ahead).clamp_min(0)
    exact = buckets // 2  # distances below have a bucket each
    growth = torch.log(distance.clamp_min(1) / exact) / math.log(far / exact)
    shared = exact + (growth * (buckets - exact)).to(torch.long)
    return start + torch.where(distance < exact, distance, shared.clamp_max(buckets - 1))
