"""Positions that are mixed by their contents without any weight of one token on another.

Linear attention, state space layers in chunks and attention between channels sum products of two
tensors of tokens over all positions. What comes out belongs to no token any more:

    k, v                    (1, 7, 32)  tokens of "encoder" on axis -2
    state = k.mT @ v        (1, 32, 32) summed over the tokens of both: a gap
    state = (k[..., None] * v[..., None, :]).sum(1)   the same, written elementwise

One rule finds them: a sum over the axis of tokens of a product in which both factors depend on the
model's input. Pooling, normalisation and convolution sum over tokens too, but with parameters or
with numbers that do not depend on the tokens, and so do masks. Fourier transforms over tokens are
found by their name, and numbers that go to numpy by the functions that take them there.
"""

from typing import Any

from torch import Tensor

from regard.tracing.dataflow.axis_moves import from_end
from regard.tracing.dataflow.origins import (
    UNFOLDED,
    Exponentials,
    ManualWeights,
    Origin,
    TokenProducts,
    origin_of,
)
from regard.tracing.dataflow.products import Factor, Product

SUMMED = (
    "it sums products of two tensors of tokens over positions (as linear attention, state space "
    "layers and attention between channels do), so no weight of one token on another is ever "
    "computed"
)
FOURIER = (
    "it mixes positions by a Fourier transform, so no weight of one token on another is ever "
    "computed"
)
NEIGHBOURS = (
    "it weights copies of the neighbours of each token (as a dynamic convolution does), so its "
    "columns are distances and not keys; register_tap its function to say what it does"
)
NUMPY = (
    "its tensors leave torch for numpy, so what is computed there cannot be seen; write it with "
    "torch, or register_tap its function"
)
SPARSE = (
    "it attends by sparse tensors, whose numbers cannot be followed; use dense ones with a mask, "
    "or register_tap its function"
)
_FLAT = ("flat", "state", "features", "constant")  # layouts whose axis holds no tokens of one text


def sums_positions(product: Product) -> bool:
    """True if a product sums over the tokens of one factor, and the other depends on the input."""
    return any(
        _has_tokens_on(origin_of(values), theirs) and _depends_on_input(origin_of(operand), own)
        for operand, values, own, theirs in product.both_ways
    )


def _has_tokens_on(origin: Origin, factor: Factor) -> bool:
    """True if a factor is vectors of tokens, and has these on an axis that is summed over."""
    if not origin.axis or origin.axis not in factor.summed or origin.layout in _FLAT:
        return False
    if isinstance(origin.stage, ManualWeights) or (origin.pair and origin.pair.is_product):
        return False
    return origin.stream is not None


def _depends_on_input(origin: Origin, factor: Factor) -> bool:
    """True if a factor depends on the tokens; a matrix that the caller passes in does not."""
    if origin.stream is None or isinstance(origin.stage, ManualWeights):
        return False
    return origin.layout != "input" or origin.pair is not None or origin.axis in factor.summed


def weights_are_features(origin: Origin, weights: Tensor, factor: Factor) -> bool:
    """True if a product takes features of each head, normalised over tokens, for weights.

    Efficient attention normalises the keys themselves so. Weights without queries that are one
    number for each token, or for each token and head, do weight the tokens.
    """
    stage = origin.weights_over_keys
    if stage is None or weights.dim() < 4 or stage.pair.is_product or stage.pair.left.axis:
        return False
    own = [axis for axis, place in factor.axes.items() if place in factor.owns]
    return any(weights.shape[axis] > 1 for axis in own)


def multiply_tokens(operands: tuple[Any, Any], origins: tuple[Origin, Origin]) -> Origin | None:
    """The origin of two tensors of the same tokens, multiplied number by number and broadcast.

    None if neither is broadcast, or if the two have no axis of tokens in common.
    """
    first, second = origins
    if not first.axis or first.axis != second.axis:
        return None
    if are_neighbours(first, second):
        return Origin(first.stream, first.axis, "neighbours", None, TokenProducts())
    if first.stream != second.stream:
        return None
    if _weighs_by_exponentials(first, second) or _weighs_by_exponentials(second, first):
        return Origin(first.stream, first.axis, first.layout, None, TokenProducts())
    if first.pair is not None or second.pair is not None or first.layout in _FLAT:
        return None
    if operands[0].shape == operands[1].shape:
        return None
    return Origin(first.stream, first.axis, first.layout, None, TokenProducts())


def _weighs_by_exponentials(own: Origin, other: Origin) -> bool:
    """True if exponentials of each token weight other features of it (Zhai et al. 2021, AFT)."""
    is_product = own.pair is not None and own.pair.is_product
    return isinstance(own.stage, Exponentials) and not is_product and other.stage is None


def are_neighbours(first: Origin, second: Origin) -> bool:
    """True if one tensor is places of a picture, and the other one their neighbours, unfolded."""
    if first.stream is None or second.stream is None:
        return False
    return second.stream == first.stream + UNFOLDED or first.stream == second.stream + UNFOLDED


def transforms_tokens(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if a Fourier transform goes over the tokens of a stream."""
    source = args[0] if args else kwargs.get("input")
    origin = origin_of(source)
    if not origin.axis or origin.layout in (*_FLAT, "picture") or not isinstance(source, Tensor):
        return False
    default: Any = -1
    if name.endswith("2"):
        default = (-2, -1)
    elif name.endswith("n"):
        default = tuple(range(source.dim()))
    dims = kwargs.get("dim", args[2] if len(args) > 2 else None)
    dims = default if dims is None else dims
    dims = (dims,) if isinstance(dims, int) else dims
    return origin.axis in [from_end(dim, source.dim()) for dim in dims]
