"""Rules that pass origins on where numbers stay in their places: elementwise, sums, softmax.

Each rule takes the function's name, its arguments and its result, and writes origins on the result.
Rules run after every torch function, so the common case comes first in each of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.tracing.dataflow.axis_moves import axis_without, from_end
from regard.tracing.dataflow.mixing import multiply_tokens
from regard.tracing.dataflow.origins import (
    CONSTANT,
    LOST,
    UNKNOWN,
    Exponentials,
    LogWeights,
    ManualWeights,
    Origin,
    PickedTokens,
    SoftmaxDenominator,
    changed_weights,
    set_origin,
    stream_origin,
    tensors_in,
)
from regard.tracing.dataflow.rule_cache import combine_shared
from regard.tracing.dataflow.softmax import (
    TIMES,
    combined_origin,
    denominator_origin,
    divided_origin,
    elementwise_origin,
    exp_origin,
    log_softmax_origin,
    softmax_origin,
)

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def origins_in(values: Iterable[Any]) -> list[Origin]:
    """The origins on arguments, one level into lists and tuples."""
    origins = []
    for value in values:
        if isinstance(value, list | tuple):
            origins += [
                origin for item in value if (origin := getattr(item, "_regard_origin", None))
            ]
        elif (origin := getattr(value, "_regard_origin", None)) is not None:
            origins.append(origin)
    return origins


def first_origin(args: Args, kwargs: Kwargs) -> Origin | None:
    """The first origin among operands; CONSTANT if all of them are parameters."""
    origins = origins_in(args) or origins_in(kwargs.values())
    if origins:
        return origins[0]
    operands = list(tensors_in((*args, *kwargs.values())))
    all_constant = operands and all(isinstance(operand, nn.Parameter) for operand in operands)
    return CONSTANT if all_constant else None


def set_all(result: Any, origin: Origin) -> None:
    """Write an origin on every tensor of a result."""
    if isinstance(result, Tensor):
        set_origin(result, origin)
    else:
        for tensor in tensors_in((result,)):
            set_origin(tensor, origin)


def set_floats(result: Any, origin: Origin) -> None:
    """Write an origin on the floating-point tensors of a result; the others are indices."""
    for tensor in tensors_in((result,)):
        if tensor.dtype.is_floating_point:
            set_origin(tensor, origin)


def carry(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """The same numbers: the same origin."""
    try:
        origin = args[0]._regard_origin
    except (AttributeError, IndexError):
        origin = first_origin(args, kwargs)
        if origin is None:
            return
    if result is not args[0]:
        set_all(result, origin)


def elementwise(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Each number by itself: scores stay scores, weights become changed weights."""
    try:
        origin = args[0]._regard_origin
    except (AttributeError, IndexError):
        origin = first_origin(args, kwargs)
        if origin is None:
            return
    if origin.stage is not None:
        origin = _after_elementwise(origin, result)
    set_all(result, origin)


def _after_elementwise(origin: Origin, result: Any) -> Origin:
    """The origin of a tensor with a stage after a function of each number."""
    if isinstance(origin.stage, ManualWeights) and isinstance(result, Tensor):
        return changed_weights(origin, result)
    if isinstance(origin.stage, Exponentials | SoftmaxDenominator | PickedTokens):
        return origin  # as in adding a small number to a denominator
    return replace(origin, stage=None)


def normalize(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Vectors divided by their norms; exponentials of scores, by their sum, are weights."""
    source = args[0] if args else kwargs["input"]
    origin = getattr(source, "_regard_origin", None)
    names = ("input", "p", "dim")
    given = {"p": 2.0, "dim": 1} | dict(zip(names, args, strict=False)) | kwargs
    if origin is not None and isinstance(origin.stage, Exponentials) and given["p"] == 1:
        total = SoftmaxDenominator(from_end(given["dim"], source.dim()), origin.stage)
        divided = divided_origin(origin, total, result)
        if divided is not None:
            set_origin(result, divided)
            return
    elementwise(name, args, kwargs, result)


def linear(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A linear map of the last axis: tokens on another axis stay where they are."""
    try:
        origin = args[0]._regard_origin
    except (AttributeError, IndexError):
        origin = first_origin(args, kwargs)
        if origin is None:
            return
    if origin.axis == -1 or origin.pair is not None or origin.stage is not None:
        origin = origin.after_linear(_lose_last_axis)
        if isinstance(origin.stage, ManualWeights):
            origin = changed_weights(origin, result)
    set_origin(result, origin)


def _lose_last_axis(axis: int) -> int:
    return LOST if axis == -1 else axis


def is_pointwise(args: Args, kwargs: Kwargs) -> bool:
    """True if a convolution reads one place at a time: a linear map of the channels."""
    kernel = args[1] if len(args) > 1 else kwargs["weight"]
    stride, padding = (
        kwargs.get(name, args[place] if len(args) > place else neutral)
        for name, place, neutral in (("stride", 3, 1), ("padding", 4, 0))
    )
    if any(size != 1 for size in kernel.shape[2:]) or isinstance(padding, str):
        return False
    strides = stride if isinstance(stride, tuple | list) else (stride,)
    paddings = padding if isinstance(padding, tuple | list) else (padding,)
    return all(step == 1 for step in strides) and not any(paddings)


def map_channels(origin: Origin, source: Tensor, result: Tensor) -> Origin | None:
    """The origin after a pointwise convolution; heads may be channels, as of talking heads.

    None if it is not known where the tokens are: then they are where a convolution puts them.
    """
    if origin.pair is None:
        if origin.layout != "tokens" or not (origin.axis or origin.trail):
            return None
        if origin.trail is not None:
            return origin
    channels = 1 - source.dim() if source.dim() > 2 else -source.dim()
    origin = origin.after_linear(lambda axis: LOST if axis == channels else axis)
    return changed_weights(origin, result) if isinstance(origin.stage, ManualWeights) else origin


def combine(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Two tensors combined number by number, broadcast."""
    if name == "where" and len(args) > 1:
        args = args[1:]
    if len(args) < 2:
        args = (*args, *tensors_in(kwargs.values()), None)
    first: Origin | None = getattr(args[0], "_regard_origin", None)
    second: Origin | None = getattr(args[1], "_regard_origin", None)
    if first is None and second is None:
        origin = first_origin(args, {})
    elif first is not None and first.stage is None and second in (first, None):
        origin = first
        if second is not None and first.axis and name in TIMES:
            origin = multiply_tokens((args[0], args[1]), (first, first)) or first
    elif first and second and first.is_shared and second.is_shared and name not in TIMES:
        origin = combine_shared(first, second)
    else:
        origins = (first or UNKNOWN, second or UNKNOWN)
        origin = elementwise_origin(name, (args[0], args[1]), origins, result)
    if origin is not None:
        set_all(result, origin)


def bilinear(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Vectors of two tensors, each with its counterpart, multiplied through learned matrices."""
    sides = [*tensors_in((*args, *kwargs.values()))][:2]
    origins = [getattr(side, "_regard_origin", UNKNOWN) for side in sides]
    if any(origin is not UNKNOWN for origin in origins):
        set_all(result, combined_origin(*origins).after_linear(_lose_last_axis))


def reduce(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Sums, means and the like over some axes."""
    source = args[0] if args else kwargs["input"]
    if len(args) > 1 and isinstance(args[1], Tensor):  # max(a, b) of two tensors
        combine(name, args, kwargs, result)
        return
    origin = getattr(source, "_regard_origin", None)
    if origin is None:
        return
    if isinstance(origin.stage, PickedTokens) and not origin.axis:
        set_all(result, origin)
        return
    axes, keepdim = reduced_axes(source, args, kwargs)
    known = origin.pair is not None or origin.axis is not None
    reduced = denominator_origin(name, origin, axes) if known else None
    if reduced is None:
        removed = () if keepdim else axes
        reduced = replace(origin, stage=None).move_axes(
            lambda axis: None if axis in axes else axis_without(removed, axis)
        )
    set_all(result, reduced)


def compared_origin(name: str, args: Args, kwargs: Kwargs, result: Any) -> tuple[Origin, int]:
    """Vectors compared each with each: the origin of their products, and the axis of the sum.

    UNKNOWN if nothing is known of both.
    """
    sides = [*tensors_in((*args[:2], *kwargs.values()))][:2]
    origins = [getattr(side, "_regard_origin", UNKNOWN) for side in sides]
    if len(sides) < 2 or all(origin is UNKNOWN for origin in origins):
        return UNKNOWN, -1
    dim = kwargs.get("dim", -1)  # there is no other for pairwise_distance
    if name == "cosine_similarity" and "dim" not in kwargs:
        dim = args[2] if len(args) > 2 else 1
    axis = from_end(dim, max(side.dim() for side in sides))
    return elementwise_origin("mul", (sides[0], sides[1]), (origins[0], origins[1]), result), axis


def without_axis(origin: Origin, axis: int, *, keepdim: bool = False) -> Origin:
    """The origin after a sum over an axis."""
    removed = () if keepdim else (axis,)
    return replace(origin, stage=None).move_axes(
        lambda other: None if other == axis else axis_without(removed, other)
    )


def reduced_axes(source: Tensor, args: Args, kwargs: Kwargs) -> tuple[tuple[int, ...], bool]:
    """The axes over which a function reduces, and whether the result keeps them with size one."""
    dim = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if isinstance(dim, int):
        dim = (dim,)
    dims = dim if isinstance(dim, tuple | list) and dim else range(source.dim())
    keepdim = bool(kwargs.get("keepdim", args[2] if len(args) > 2 else False))
    return tuple(from_end(dim, source.dim()) for dim in dims), keepdim


def softmax(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Weights, over the tokens of a stream or over features."""
    scores = args[0] if args else kwargs["input"]
    origin = getattr(scores, "_regard_origin", None)
    axis = _normalised_axis(name, scores, args, kwargs)
    if axis is None or isinstance(scores, nn.Parameter):
        return
    if origin is None:
        # scores of a function that torch compiled, for instance: their rows come before the keys
        queries = -2 if axis == -1 and scores.dim() > 2 else None
        origin = stream_origin(None, queries)
    set_origin(result, softmax_origin(replace(origin, stage=None), scores, axis, result))


def log_softmax(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Logarithms of weights."""
    scores = args[0] if args else kwargs["input"]
    origin = getattr(scores, "_regard_origin", None)
    axis = _normalised_axis(name, scores, args, kwargs)
    if origin is not None and axis is not None:
        set_origin(result, log_softmax_origin(origin, scores, axis))


def _normalised_axis(name: str, scores: Tensor, args: Args, kwargs: Kwargs) -> int | None:
    place, default = (4, -1) if name == "gumbel_softmax" else (1, None)
    dim = kwargs.get("dim", args[place] if len(args) > place else default)
    return None if dim is None else from_end(int(dim), scores.dim())


def exp(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Exponentials of scores, or weights whose logarithms were known."""
    scores = args[0] if args else kwargs["input"]
    origin = getattr(scores, "_regard_origin", None)
    if origin is None:
        return
    if "2" in name and isinstance(origin.stage, LogWeights):  # logarithms to another base
        elementwise(name, args, kwargs, result)
    else:
        set_origin(result, exp_origin(origin, scores, result))


def power(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A number to the power of scores is an exponential of them; other powers are elementwise."""
    base, exponent = args[:2] if len(args) > 1 else (None, None)
    if name == "__rpow__":
        base, exponent = exponent, base
    if isinstance(exponent, Tensor) and isinstance(base, int | float):
        exp("exp2", (exponent,), {}, result)
    else:
        elementwise(name, args, kwargs, result)


def other(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A function of which nothing is known: axes stay if the shape does."""
    if not isinstance(result, Tensor | list | tuple):
        return
    origin = first_origin(args, kwargs)
    if origin is None:
        return
    source = next(iter(tensors_in((*args, *kwargs.values()))), None)
    for tensor in tensors_in((result,)):
        if tensor.dtype.is_floating_point:
            # a nested tensor has no shape that could be asked for
            plain = source is not None and not (tensor.is_nested or source.is_nested)
            same_shape = plain and tensor.shape == source.shape  # type: ignore[union-attr]
            kept = same_shape and origin.pair is None
            set_origin(tensor, origin if kept else _stream_only(origin))


def _stream_only(origin: Origin) -> Origin:
    """The origin with its axes given up: lost in scores, unknown in others."""
    if origin.pair is not None and origin.pair.is_product:
        return origin.move_axes(lambda axis: LOST)
    return stream_origin(origin.stream, None, origin.layout)


def forget_axes(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A tensor whose layout was changed in place: its axes before are not known any more."""
    origin = first_origin(args, kwargs)
    if origin is not None:
        set_floats(result, _stream_only(origin))


def pool_segments(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Segments of tokens reduced to single vectors: another stream, as bytes become patches."""
    named = ("input", "dim", "index", "src", "reduce")
    values = dict(zip(named, args, strict=False)) | kwargs
    source, reduction = values["src"], values["reduce"]
    origin = getattr(source, "_regard_origin", None)
    if origin is None or origin.pair is not None or not origin.axis:
        other(name, args, kwargs, result)
        return
    axis = origin.axis
    # a sum over as many places may be the tokens of a mixture of experts, back in their order
    is_pooled = reduction != "sum" or result.shape[axis] != source.shape[axis]
    set_origin(result, stream_origin(f"{origin.stream} pooled", axis) if is_pooled else origin)


def pool(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Neighbours pooled together: tokens stay on their axes, but fewer are another stream."""
    origin, source = first_origin(args, kwargs), next(iter(tensors_in(args)), None)
    if origin is None:
        return
    is_tensor = isinstance(result, Tensor) and source is not None
    if origin.pair is not None:
        origin = _stream_only(origin)
    elif origin.axis and origin.layout == "tokens" and is_tensor:
        fewer = result.shape[origin.axis] != source.shape[origin.axis]  # type: ignore[union-attr]
        origin = stream_origin(f"{origin.stream} pooled", origin.axis) if fewer else origin
    set_floats(result, origin)


PROPAGATION: dict[str, Callable[[str, Args, Kwargs, Any], None]] = {
    rule.__name__: rule
    for rule in (
        *(carry, elementwise, normalize, linear, combine, bilinear, reduce, softmax, log_softmax),
        *(exp, power, other, forget_axes, pool, pool_segments),
    )
}
