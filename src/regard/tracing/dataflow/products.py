"""Products of two tensors: which axes are summed over, and where the others go."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.origins import LOST, tensors

Axes = Mapping[int, int]  # from an axis of a factor to one of the product, counted from the end


@dataclass(frozen=True, eq=False)
class Factor:
    """One side of a product: where its axes go, those summed over, and those of it alone."""

    axes: Axes
    summed: tuple[int, ...]
    owns: tuple[int, ...]

    def moved(self, axis: int) -> int:
        """Where an axis of it is in the product."""
        return self.axes.get(axis, LOST)

    @property
    def own(self) -> int | None:
        """The axis of its vectors."""
        return self.owns[-1] if self.owns else None


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two tensors and what becomes of the axes of each.

    `letters` are the axes of left, right and result as einsum names them.
    """

    left: Tensor
    right: Tensor
    letters: tuple[str, str, str]
    sides: tuple[Factor, Factor]

    @property
    def both_ways(self) -> tuple[tuple[Tensor, Tensor, Factor, Factor], ...]:
        """One factor and the other, and what becomes of the axes of each; then turned."""
        left, right = self.sides
        return (self.left, self.right, left, right), (self.right, self.left, right, left)


def product_of(name: str, args: tuple[Any, ...]) -> Product | None:
    """What a function multiplies; None where it is not two tensors."""
    if name == "einsum":
        return _einsum(args)
    factors = list(tensors(args))[-2:]
    if len(factors) < 2 or min(each.dim() for each in factors) < 1:
        return None
    if name == "__rmatmul__":
        factors.reverse()
    left, right = factors
    if name == "linear":
        left, right = list(tensors(args))[:2]
        return _product(left, right, _linear_letters(left.dim()))
    return _product(left, right, _matmul_letters(left.dim(), right.dim()))


def _einsum(args: tuple[Any, ...]) -> Product | None:
    factors = list(tensors(args))
    if not isinstance(args[0], str) or len(factors) != 2:
        return None
    letters = _einsum_letters(args[0], factors[0].dim(), factors[1].dim())
    return None if letters is None else _product(factors[0], factors[1], letters)


def _product(left: Tensor, right: Tensor, letters: tuple[str, str, str]) -> Product:
    return Product(left, right, letters, _letters(*letters))


@functools.lru_cache(maxsize=256)
def _matmul_letters(left: int, right: int) -> tuple[str, str, str]:
    """The axes of torch.matmul as einsum names them; batch axes are aligned at the end."""
    lead = "abcdefghijklmnop"
    most = max(left, right, 2) - 2
    first = lead[most - max(left - 2, 0) : most] + ("XY" if left > 1 else "Y")
    second = lead[most - max(right - 2, 0) : most] + ("YZ" if right > 1 else "Y")
    ends = ("X" if left > 1 else "") + ("Z" if right > 1 else "")
    return first, second, lead[:most] + ends


@functools.lru_cache(maxsize=64)
def _linear_letters(count: int) -> tuple[str, str, str]:
    lead = "abcdefghijklmnop"[: count - 1]
    return lead + "Y", "ZY", lead + "Z"


@functools.lru_cache(maxsize=256)
def _einsum_letters(equation: str, left: int, right: int) -> tuple[str, str, str] | None:
    equation = equation.replace(" ", "")
    given, arrow, result = equation.partition("->")
    sides = given.split(",")
    if len(sides) != 2:
        return None
    most, filled = 0, list[str]()
    for side, count in zip(sides, (left, right), strict=True):
        dots = count - len(side.replace("...", "")) if "..." in side else 0
        most = max(most, dots)
        filled.append(side.replace("...", "0123456789"[10 - dots :] if dots else ""))
    if not arrow:  # letters that come once, in order
        letters = sorted(set("".join(sides).replace(".", "")))
        result = "..." + "".join(each for each in letters if "".join(sides).count(each) == 1)
    return filled[0], filled[1], result.replace("...", "0123456789"[10 - most :] if most else "")


@functools.lru_cache(maxsize=256)
def _letters(left: str, right: str, result: str) -> tuple[Factor, Factor]:
    return _factor(left, right, result), _factor(right, left, result)


def _factor(letters: str, others: str, result: str) -> Factor:
    count, total = len(letters), len(result)
    axes = {
        place - count: result.index(each) - total
        for place, each in enumerate(letters)
        if each in result
    }
    summed = [
        place - count for place, each in enumerate(letters) if each not in result and each in others
    ]
    owns = [result.index(each) - total for each in letters if each in result and each not in others]
    return Factor(axes, tuple(summed), tuple(owns))
