"""Products of two tensors: which axes are summed over, where the others go, and what results.

Axes are counted from the end. Every product is read as an einsum, so matmul, bmm, linear and
einsum are handled alike.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

from torch import Size, Tensor

from regard.tracing.dataflow.origins import (
    LOST,
    UNKNOWN,
    ManualWeights,
    Origin,
    StreamPair,
    StreamSide,
    origin_of,
    tensors_in,
)
from regard.tracing.dataflow.places import sides_with_trails
from regard.tracing.dataflow.trails import Codes, first_of, join_codes, lengthen_trail

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
    def sizes(self) -> dict[str, int]:
        """The size of the axis of each letter; an axis of size one is broadcast."""
        return letter_sizes(self.letters[:2], (self.left.shape, self.right.shape))

    @property
    def both_ways(self) -> tuple[tuple[Tensor, Tensor, Factor, Factor], ...]:
        """(one tensor, the other, one factor, the other), for both orders."""
        left, right = self.sides
        return (self.left, self.right, left, right), (self.right, self.left, right, left)


def letter_sizes(letters: tuple[str, str], shapes: tuple[Size, Size]) -> dict[str, int]:
    """The size of the axis of each letter of two factors; an axis of size one is broadcast."""
    sizes = dict[str, int]()
    for own, shape in zip(letters, shapes, strict=True):
        for letter, size in zip(own, shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return sizes


def broadcast_letters(left: Size, right: Size) -> tuple[str, str]:
    """The letters of two tensors that are multiplied number by number.

    Where the left one has a single number for several of the right one, the letters differ.
    """
    most = max(len(left), len(right))
    letters = "abcdefghijklmnop"[:most]
    own, theirs = letters[most - len(left) :], letters[most - len(right) :]
    for axis in range(-min(len(left), len(right)), 0):
        if left[axis] == 1 < right[axis]:
            place = len(own) + axis
            own = own[:place] + own[place].upper() + own[place + 1 :]
    return own, theirs


def product_of(name: str, args: tuple[Any, ...]) -> Product | None:
    """The product that a function computes; None if it does not multiply two tensors."""
    if name == "einsum":
        return _einsum_product(args)
    if name == "tensordot":
        return _tensordot_product(args)
    if name == "linalg_multi_dot":
        return _chain_product(list(tensors_in(args)))
    factors = list(tensors_in(args))[-2:]  # baddbmm and addmm have a summand before them
    if len(factors) < 2 or min(factor.dim() for factor in factors) < 1:
        return None
    if name == "__rmatmul__":
        factors.reverse()
    left, right = factors
    if name == "linear":
        left, right = list(tensors_in(args))[:2]
        return _product(left, right, _linear_letters(left.dim()))
    if name == "inner":  # sums over the last axis of both
        own, others = "abcdefgh"[: left.dim() - 1], "pqrstuvw"[: right.dim() - 1]
        return _product(left, right, (f"{own}Y", f"{others}Y", own + others))
    if name == "cdist":  # distances of rows to rows, on the axes of left @ right.mT
        first, second, result = _matmul_letters(left.dim(), right.dim())
        return _product(left, right, (first, second[:-2] + "ZY", result))
    return _product(left, right, _matmul_letters(left.dim(), right.dim()))


def _einsum_product(args: tuple[Any, ...]) -> Product | None:
    """The product of an einsum of two tensors, or of two and parameters: "bqi,ij,bkj->bqk"."""
    factors = list(tensors_in(args))
    if not isinstance(args[0], str):
        return None
    counts = tuple(factor.dim() for factor in factors)
    chosen = list(range(len(factors)))
    if len(factors) > 2:
        chosen = [n for n in chosen if _depends_on_input(factors[n])]
    if len(chosen) != 2:
        return None
    first, second = chosen
    letters = _einsum_letters(args[0], counts, (first, second))
    return None if letters is None else _product(factors[first], factors[second], letters)


def joint_products(args: tuple[Any, ...]) -> list[Product]:
    """The products of each two tensors, no parameters, of an einsum that multiplies more of them.

    Each is read as if the others were numbers that it is multiplied with.
    """
    factors = list(tensors_in(args))
    if len(factors) < 3 or not isinstance(args[0], str):
        return []
    counts = tuple(factor.dim() for factor in factors)
    chosen = [n for n, factor in enumerate(factors) if _depends_on_input(factor)]
    products = []
    for first, second in combinations(chosen, 2):
        letters = _einsum_letters(args[0], counts, (first, second))
        if letters is not None:
            products.append(_product(factors[first], factors[second], letters))
    return products


def _depends_on_input(factor: Tensor) -> bool:
    """False for parameters, and for numbers of which nothing is known."""
    origin = origin_of(factor)
    return origin is not UNKNOWN and origin.layout != "constant"


def _chain_product(factors: list[Tensor]) -> Product | None:
    """The product of a chain of matrices, of which all but two are parameters."""
    if any(factor.dim() != 2 for factor in factors):
        return None
    names = "abcdefghijklmnop"
    inputs = ",".join(names[place : place + 2] for place in range(len(factors)))
    return _einsum_product((f"{inputs}->a{names[len(factors)]}", *factors))


def _tensordot_product(args: tuple[Any, ...]) -> Product | None:
    """The product of torch.tensordot, whose axes are a number or two lists."""
    (left, right), dims = args[:2], args[2] if len(args) > 2 else 2
    if isinstance(dims, int):
        dims = [[*range(left.dim() - dims, left.dim())], [*range(dims)]]
    if not isinstance(dims, list | tuple) or len(dims) != 2:
        return None
    first, second = ([dim] if isinstance(dim, int) else list(dim) for dim in dims)
    if len(first) > min(left.dim(), right.dim()):  # `dims` was not among the arguments
        return None
    names = list("abcdefghijklmnop"[: left.dim()])
    others = list("qrstuvwxyz"[: right.dim()])
    for one, other in zip(first, second, strict=True):
        others[other] = names[one]
    summed = {names[dim] for dim in first}
    result = "".join(letter for letter in (*names, *others) if letter not in summed)
    return _product(left, right, ("".join(names), "".join(others), result))


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
def _einsum_letters(
    equation: str, counts: tuple[int, ...], chosen: tuple[int, int]
) -> Letters | None:
    """The letters of two factors of an einsum equation, with digits for the axes of an ellipsis.

    `counts` are the numbers of axes of all its factors.
    """
    equation = equation.replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    sides = inputs.split(",")
    if len(sides) != len(counts):
        return None
    most, filled = 0, list[str]()
    for side, count in zip(sides, counts, strict=True):
        dots = count - len(side.replace("...", "")) if "..." in side else 0
        most = max(most, dots)
        filled.append(side.replace("...", "0123456789"[10 - dots :] if dots else ""))
    if not arrow:  # without an arrow the result has the letters that occur once, sorted
        letters = sorted(set("".join(sides).replace(".", "")))
        result = "..." + "".join(each for each in letters if "".join(sides).count(each) == 1)
    result = result.replace("...", "0123456789"[10 - most :] if most else "")
    return filled[chosen[0]], filled[chosen[1]], result


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


def matmul_factors(left: int, right: int) -> tuple[Factor, Factor]:
    """What becomes of the axes of the factors of torch.matmul, by their numbers of axes."""
    return _factors(*_matmul_letters(left, right))


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
    if not left.is_parameters and right.is_parameters:
        return linear_map_origin(left, left_factor, right_factor)
    if left.is_parameters and not right.is_parameters:
        return linear_map_origin(right, right_factor, left_factor)
    pair = StreamPair(_score_side(product, 0), _score_side(product, 1), True)
    in_blocks = left.layout == right.layout == "grid"
    if left.trail is not None or right.trail is not None or in_blocks:
        pair = _trace_scores(product, pair)
    axis = pair.left.axis if left.axis else None
    return Origin(left.stream, axis, left.layout, pair)


def linear_map_origin(origin: Origin, own: Factor, parameters: Factor) -> Origin:
    """The origin of a stream times parameters; these may also be learned queries."""
    moved = origin.after_linear(own.move)
    if moved.pair is not None or not moved.side.axis or parameters.own is None:
        return moved
    pair = StreamPair(StreamSide(None, parameters.own, "constant"), moved.side)
    return Origin(moved.stream, moved.axis, moved.layout, pair)


def _trace_scores(product: Product, pair: StreamPair) -> StreamPair:
    """The sides of scores with the trails of the factors: a score belongs to a token of each."""
    factors = ((product.left, product.letters[0]), (product.right, product.letters[1]))
    trails = [
        lengthen_trail(
            sides_with_trails(origin_of(factor), factor.shape)[:1],
            [factor.shape],
            partial(_spread_factor, letters, product.letters[2], product.sizes),
        )
        for factor, letters in factors
    ]
    sides = zip((pair.left, pair.right), trails, strict=True)
    left, right = (side._replace(trail=trail) for side, trail in sides)
    return StreamPair(left, right, True)


def _spread_factor(
    letters: str, result: str, sizes: Mapping[str, int], codes: Sequence[Codes]
) -> Codes:
    return spread_codes(codes[0], letters, result, sizes)


def spread_codes(codes: Codes, letters: str, result: str, sizes: Mapping[str, int]) -> Codes:
    """Codes of vectors of a factor, on the axes of the product; vectors are summed over."""
    summed = tuple(place for place, letter in enumerate(letters) if letter not in result)
    codes = join_codes(*first_of(codes, summed))
    codes = codes.squeeze(summed) if summed else codes
    kept = [letter for letter in letters if letter in result]
    order = sorted(range(len(kept)), key=lambda place: result.index(kept[place]))
    codes = codes.permute(order)
    for place, letter in enumerate(result):
        if letter not in kept:
            codes = codes.unsqueeze(place)
    return codes.expand([sizes[letter] for letter in result])


def _score_side(product: Product, place: int) -> StreamSide:
    """One side of scores: on the axis of its vectors, unless its tokens were summed over."""
    tensor, other, factor, theirs = product.both_ways[place]
    origin, axis = origin_of(tensor), factor.own
    if origin.axis and origin.axis in factor.summed:
        axis = LOST
    elif origin.axis and (
        (kept := factor.move(origin.axis)) in factor.owns or _is_broadcast(other, theirs, kept)
    ):
        axis = kept
    return StreamSide(origin.stream, axis, origin.layout, origin.side.whole)


def _is_broadcast(tensor: Tensor, factor: Factor, axis: int) -> bool:
    """True if a factor has one number on an axis of the product: the other factor's tokens."""
    return any(tensor.shape[own] == 1 for own, place in factor.axes.items() if place == axis)
