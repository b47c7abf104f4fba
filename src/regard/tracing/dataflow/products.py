"""Products of two tensors: which axes are summed over, where the others go, and what results.

Axes are counted from the end. Every product is read as an einsum, so matmul, bmm, linear and
einsum are handled alike.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.origins import (
    LOST,
    ManualWeights,
    Origin,
    StreamPair,
    StreamSide,
    origin_of,
    tensors_in,
)

AxisMap = Mapping[int, int]  # from an axis of a factor to one of the product
Letters = tuple[str, str, str]  # the axes of left factor, right factor and result


@dataclass(frozen=True, eq=False)
class Factor:
    """What becomes of the axes of one factor.

    `axes` says where each goes, `summed` are those summed over, and `owns` are the axes of the
    product that only this factor has.
    """

    axes: AxisMap
    summed: tuple[int, ...]
    owns: tuple[int, ...]

    def move(self, axis: int) -> int:
        """Where an axis of the factor is in the product."""
        return self.axes.get(axis, LOST)

    @property
    def own(self) -> int | None:
        """The last axis of the product that only this factor has: that of its vectors."""
        return self.owns[-1] if self.owns else None


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two tensors, with the letters einsum would use for its axes."""

    left: Tensor
    right: Tensor
    letters: Letters
    sides: tuple[Factor, Factor]

    @property
    def both_ways(self) -> tuple[tuple[Tensor, Tensor, Factor, Factor], ...]:
        """(one tensor, the other, one factor, the other), for both orders."""
        left, right = self.sides
        return (self.left, self.right, left, right), (self.right, self.left, right, left)


def product_of(name: str, args: tuple[Any, ...]) -> Product | None:
    """The product that a function computes; None if it does not multiply two tensors."""
    if name == "einsum":
        return _einsum_product(args)
    factors = list(tensors_in(args))[-2:]  # baddbmm and addmm have a summand before them
    if len(factors) < 2 or min(factor.dim() for factor in factors) < 1:
        return None
    if name == "__rmatmul__":
        factors.reverse()
    left, right = factors
    if name == "linear":
        left, right = list(tensors_in(args))[:2]
        return _product(left, right, _linear_letters(left.dim()))
    return _product(left, right, _matmul_letters(left.dim(), right.dim()))


def _einsum_product(args: tuple[Any, ...]) -> Product | None:
    factors = list(tensors_in(args))
    if not isinstance(args[0], str) or len(factors) != 2:
        return None
    letters = _einsum_letters(args[0], factors[0].dim(), factors[1].dim())
    return None if letters is None else _product(factors[0], factors[1], letters)


def _product(left: Tensor, right: Tensor, letters: Letters) -> Product:
    return Product(left, right, letters, _factors(*letters))


@functools.lru_cache(maxsize=256)
def _matmul_letters(left: int, right: int) -> Letters:
    """The einsum letters of torch.matmul for these numbers of axes; batch axes align at the end."""
    lead = "abcdefghijklmnop"
    most = max(left, right, 2) - 2
    first = lead[most - max(left - 2, 0) : most] + ("XY" if left > 1 else "Y")
    second = lead[most - max(right - 2, 0) : most] + ("YZ" if right > 1 else "Y")
    ends = ("X" if left > 1 else "") + ("Z" if right > 1 else "")
    return first, second, lead[:most] + ends


@functools.lru_cache(maxsize=64)
def _linear_letters(count: int) -> Letters:
    lead = "abcdefghijklmnop"[: count - 1]
    return lead + "Y", "ZY", lead + "Z"


@functools.lru_cache(maxsize=256)
def _einsum_letters(equation: str, left: int, right: int) -> Letters | None:
    """The letters of an einsum equation, with digits for the axes of an ellipsis."""
    equation = equation.replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    sides = inputs.split(",")
    if len(sides) != 2:
        return None
    most, filled = 0, list[str]()
    for side, count in zip(sides, (left, right), strict=True):
        dots = count - len(side.replace("...", "")) if "..." in side else 0
        most = max(most, dots)
        filled.append(side.replace("...", "0123456789"[10 - dots :] if dots else ""))
    if not arrow:  # without an arrow the result has the letters that occur once, sorted
        letters = sorted(set("".join(sides).replace(".", "")))
        result = "..." + "".join(each for each in letters if "".join(sides).count(each) == 1)
    return filled[0], filled[1], result.replace("...", "0123456789"[10 - most :] if most else "")


@functools.lru_cache(maxsize=256)
def _factors(left: str, right: str, result: str) -> tuple[Factor, Factor]:
    return _factor(left, right, result), _factor(right, left, result)


def _factor(letters: str, others: str, result: str) -> Factor:
    """What becomes of the axes of a factor with these letters."""
    count, total = len(letters), len(result)
    axes = {
        place - count: result.index(letter) - total
        for place, letter in enumerate(letters)
        if letter in result
    }
    summed = [
        place - count
        for place, letter in enumerate(letters)
        if letter not in result and letter in others
    ]
    owns = [
        result.index(letter) - total
        for letter in letters
        if letter in result and letter not in others
    ]
    return Factor(axes, tuple(summed), tuple(owns))


def weights_meet_values(pair: StreamPair, values: Origin, summed: tuple[int, int]) -> bool:
    """True if a product of weights and something else sums weights times values over keys.

    `pair` is that of the weights, `summed` the axis of each factor that is summed over.
    """
    keys = pair.right
    if keys.axis != summed[0] or isinstance(values.stage, ManualWeights):
        return False
    if values.pair is not None and values.pair.is_product:
        return False
    # queries, learned or of a stream, met keys: whatever is summed by these weights are values,
    # learned ones too, as in a decoder whose queries and keys carry positions of a picture
    if pair.is_product or (pair.left.layout == "constant" and pair.left.axis):
        return True
    if values.layout == "constant":
        return False
    if values.axis and values.axis != summed[1]:
        return False
    # weights over features were made by no keys: the values must say that they are tokens
    if keys.layout == "features":
        return values.axis == summed[1] and values.layout in ("tokens", "input")
    return values.stream is not None


def product_origin(product: Product) -> Origin:
    """The origin of a product: a linear map if one factor is parameters, else a pair."""
    left, right = origin_of(product.left), origin_of(product.right)
    left_factor, right_factor = product.sides
    if left.layout != "constant" and right.layout == "constant":
        return _linear_map_origin(left, left_factor, right_factor)
    if left.layout == "constant" and right.layout != "constant":
        return _linear_map_origin(right, right_factor, left_factor)
    pair = StreamPair(_score_side(left, left_factor), _score_side(right, right_factor), True)
    axis = pair.left.axis if left.axis else None
    return Origin(left.stream, axis, left.layout, pair)


def _linear_map_origin(origin: Origin, own: Factor, parameters: Factor) -> Origin:
    """The origin of a stream times parameters; these may also be learned queries."""
    moved = origin.after_linear(own.move)
    if moved.pair is not None or not moved.side.axis or parameters.own is None:
        return moved
    pair = StreamPair(StreamSide(None, parameters.own, "constant"), moved.side)
    return Origin(moved.stream, moved.axis, moved.layout, pair)


def _score_side(origin: Origin, factor: Factor) -> StreamSide:
    """One side of scores: on the axis of its vectors, unless its tokens were summed over."""
    axis = factor.own
    if origin.axis and origin.axis in factor.summed:
        axis = LOST
    elif origin.axis and factor.axes.get(origin.axis) in factor.owns:
        axis = factor.axes[origin.axis]
    return StreamSide(origin.stream, axis, origin.layout, origin.side.whole)
