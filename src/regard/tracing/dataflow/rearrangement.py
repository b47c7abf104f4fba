"""Rules that pass origins on where tokens move: layout, joining, writing, recurrent networks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.tracing.dataflow.axis_moves import (
    LAYOUTS,
    LayoutCall,
    axis_after_unsqueeze,
    from_end,
    merged_axis,
    split_axis,
)
from regard.tracing.dataflow.origins import (
    CONSTANT,
    LOST,
    UNKNOWN,
    ManualWeights,
    Origin,
    origin_of,
    set_origin,
    stream_origin,
    tensors_in,
)
from regard.tracing.dataflow.propagation import Args, Kwargs, first_origin, rearrange, set_all
from regard.tracing.dataflow.softmax import combine_all
from regard.tracing.readable import detach_untraced

_RESHAPES = ("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as")


def layout(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """The same numbers, or some of them, on other axes."""
    source = args[0] if args else kwargs["input"]
    origin = getattr(source, "_regard_origin", None)
    if origin is None:
        if isinstance(source, nn.Parameter):
            set_all(result, CONSTANT)
        return
    if origin.axis is None and origin.pair is None:
        set_all(result, origin)
        return
    one = result if isinstance(result, Tensor) else result[0]
    call = (name, args, kwargs, one)
    moved = _move_origin(call, source, origin)
    if isinstance(moved.stage, ManualWeights) and one.numel() != source.numel():
        moved = _crop_weights(moved, call, source)
    set_all(result, moved)


def _move_origin(call: LayoutCall, source: Tensor, origin: Origin) -> Origin:
    """The origin after a function of layout, by how the tokens lie before it."""
    move = LAYOUTS[call[0]]
    if origin.pair is not None or not origin.axis:
        return origin.move_axes(lambda axis: move(call, source, axis))
    if origin.layout in ("picture", "grid"):
        return _move_grid(call, source, origin)
    if origin.layout == "flat" and call[0] in _RESHAPES:
        axis = split_axis(source, call[3], origin.axis, origin.count)
        if axis != LOST:
            return stream_origin(origin.stream, axis)
    moved = move(call, source, origin.axis)
    if moved:
        return stream_origin(origin.stream, moved, origin.layout, origin.count)
    if moved == LOST and call[0] in _RESHAPES and origin.layout != "flat":
        return _split_or_merge_tokens(source, call[3], origin)
    return origin.move_axes(lambda _: moved)


def _split_or_merge_tokens(source: Tensor, result: Tensor, origin: Origin) -> Origin:
    """Tokens that a reshape spread over two axes, or merged with the axis before them."""
    assert origin.axis
    if (axis := split_axis(source, result, origin.axis)) != LOST:
        return stream_origin(origin.stream, axis, "grid")
    if (axis := merged_axis(source, result, origin.axis)) != LOST:
        return stream_origin(origin.stream, axis, "flat", source.shape[origin.axis])
    return stream_origin(origin.stream, LOST)


def _move_grid(call: LayoutCall, source: Tensor, origin: Origin) -> Origin:
    """Tokens on two axes, which become tokens on one where a reshape merges the two."""
    assert origin.axis
    if call[0] in _RESHAPES:
        axis = merged_axis(source, call[3], origin.axis)
        if axis != LOST:
            return stream_origin(origin.stream, axis)
    move = LAYOUTS[call[0]]
    rows, columns = (move(call, source, axis) for axis in (origin.axis - 1, origin.axis))
    if columns and rows == columns - 1:
        return stream_origin(origin.stream, columns, origin.layout)
    return stream_origin(origin.stream, LOST)


def _crop_weights(origin: Origin, call: LayoutCall, source: Tensor) -> Origin:
    """The origin of some of the weights: of those without the column of a sink, or of one query."""
    stage, (name, args, _, result) = origin.stage, call
    assert isinstance(stage, ManualWeights)
    assert origin.pair is not None
    if result.numel() > source.numel():
        return origin  # broadcast over heads that share them
    scores = stage.scores
    if name == "__getitem__" and scores.shape == source.shape:
        scores = scores[args[1]]
    stage = replace(stage, weights=detach_untraced(result), scores=scores, pair=origin.pair)
    return replace(origin, stage=stage)


def join(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Tensors concatenated; scores are rearranged if one of them is."""
    parts = args[0] if args else kwargs.get("tensors", ())
    known = [origin_of(part) for part in parts if not _is_unknown(part)]
    lost = next((origin for origin in known if _is_lost_product(origin)), None)
    origin = lost or combine_all(known)
    if origin is not None and origin is not UNKNOWN:
        set_origin(result, origin)


def _is_lost_product(origin: Origin) -> bool:
    return origin.pair is not None and origin.pair.is_product and origin.pair.is_lost


def _is_unknown(tensor: Tensor) -> bool:
    """True if nothing is known of a tensor: of zeros, for example, or of a sink."""
    return origin_of(tensor) is UNKNOWN


def stack(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Tensors on a new axis: single vectors of a stream become its tokens."""
    parts = args[0] if args else kwargs.get("tensors", ())
    origin = combine_all(origin_of(part) for part in parts if not _is_unknown(part))
    if origin is None or origin is UNKNOWN or name != "stack":
        return
    dim: int = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if origin.layout == "state" and origin.pair is None:
        axis = from_end(dim, result.dim())
        set_origin(result, stream_origin(origin.stream, axis, "steps"))
        return
    call: LayoutCall = (name, (parts[0], dim), {}, result)
    moved = origin.move_axes(lambda axis: axis_after_unsqueeze(call, parts[0], axis))
    set_origin(result, moved)


def index_select(name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
    """Indices of one axis, as where beams reorder a cache: tokens on another axis stay."""
    source = args[0] if args else kwargs["input"]
    origin = origin_of(source)
    dim = from_end(int(kwargs["dim"] if "dim" in kwargs else args[1]), source.dim())
    if origin.pair is None and origin.side.whole and origin.axis != dim:
        set_origin(result, origin)
    else:
        rearrange(name, args, kwargs, result)


def assign(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Writing into a tensor: scores are rearranged by it, single vectors become steps."""
    target, value = args[0], next(reversed(list(tensors_in(args))), None)
    origin = getattr(value, "_regard_origin", None)
    if origin is None or value is target or not isinstance(target, Tensor):
        return
    if origin.pair is not None:
        set_origin(target, origin.move_axes(lambda axis: LOST))
    elif getattr(target, "_regard_origin", UNKNOWN) is UNKNOWN:
        set_origin(target, _written_origin(name, args, target, origin))


def _written_origin(name: str, args: Args, target: Tensor, origin: Origin) -> Origin:
    """The origin of a buffer into which a tensor of this origin was written."""
    if name == "__setitem__" and origin.layout == "state":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        picked = [place for place, item in enumerate(index) if isinstance(item, int)]
        axis = picked[0] - target.dim() if picked else None
        return stream_origin(origin.stream, axis, "steps" if picked else "tokens")
    return origin


def pad_packed(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Packed sequences padded again: their tokens are on an axis."""
    origin = first_origin(args, kwargs)
    if origin is not None:
        batch_first = bool(args[2] if len(args) > 2 else kwargs.get("batch_first", False))
        set_origin(result[0], stream_origin(origin.stream, -2 if batch_first else -3))


def recur(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """The outputs of a recurrent network: a vector for each token, and its last state."""
    origin = first_origin(args, kwargs)
    if origin is None:
        return
    set_all(result, stream_origin(origin.stream, None, "state"))
    if name.endswith("_cell"):
        return
    packed = isinstance(args[1], Tensor) and not args[1].dtype.is_floating_point
    batch_first = isinstance(args[-1], bool) and args[-1]
    axis = LOST if packed else -2 if batch_first or result[0].dim() == 2 else -3
    set_origin(result[0], stream_origin(origin.stream, axis))


REARRANGEMENT: dict[str, Callable[[str, Args, Kwargs, Any], None]] = {
    rule.__name__: rule for rule in (layout, join, stack, index_select, assign, pad_packed, recur)
}
