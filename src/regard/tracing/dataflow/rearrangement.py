"""Rules that pass origins on where tokens move: layout, joining, writing, recurrent networks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Size, Tensor, nn

from regard.tracing.dataflow.axis_moves import (
    LAYOUTS,
    RESHAPES,
    LayoutCall,
    axis_after_unsqueeze,
    from_end,
    merged_axes,
    merged_axis,
    split_axis,
)
from regard.tracing.dataflow.input_ranges import begin_range, join_inputs
from regard.tracing.dataflow.loops import PARTS, in_batch, is_example, single_origin
from regard.tracing.dataflow.origins import (
    CONSTANT,
    LOST,
    UNFOLDED,
    UNKNOWN,
    ManualWeights,
    Origin,
    StreamPair,
    StreamSide,
    origin_of,
    set_origin,
    stream_origin,
    tensors_in,
)
from regard.tracing.dataflow.places import add_step, has_trail, is_followed, with_trail
from regard.tracing.dataflow.propagation import (
    Args,
    Kwargs,
    elementwise,
    first_origin,
    set_all,
    set_floats,
)
from regard.tracing.dataflow.recurrence import PICKS, pick_tokens, without_pick
from regard.tracing.dataflow.replayed_steps import (
    REPLAYED,
    layout_step,
    pad_step,
    write_step,
)
from regard.tracing.dataflow.rule_cache import REPEATED, MoveKey, find_move, move_key, remember_move
from regard.tracing.dataflow.softmax import combine_all
from regard.tracing.dataflow.trails import Step
from regard.tracing.dataflow.writing import write_by_index, write_through_view
from regard.tracing.readable import detach_untraced


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
    if name in PARTS and is_example(source, origin, one):
        set_all(result, single_origin(_move_origin(call, source, origin)))
        return
    key = None
    if origin.is_shared and name in REPEATED:
        key = move_key(call, source, origin)
        known = None if key is None else find_move(key)
        if known is not None:
            set_all(result, known)
            return
    _follow_layout(call, source, result, key)


def _follow_layout(call: LayoutCall, source: Tensor, result: Any, key: MoveKey | None) -> None:
    """`layout` where it is not remembered, to be remembered by the key if there is one."""
    (name, _, _, one), origin = call, origin_of(source)
    moved = _move_origin(call, source, origin)
    if origin.layout == "input" and name == "__getitem__" and origin.stage is None:
        moved = begin_range(call, source, origin, moved)
    stage = moved.stage
    if isinstance(stage, ManualWeights) and one.numel() != source.numel():
        moved = _crop_weights(moved, call, source)
    elif isinstance(stage, ManualWeights) and stage.pair.left.layout == "flat":
        moved = _part_weights(moved, one)
    if name in PICKS and _is_picked(moved, origin, one, source):
        assert origin.axis
        pick_tokens(source, origin.axis, moved, result)
        return
    if is_followed(origin, moved, source, one):
        set_moved(result, moved, [(origin, source.shape)], layout_step(call, source))
    else:
        set_all(result, moved if key is None else remember_move(key, moved))


def set_moved(
    result: Any, moved: Origin, sources: Sequence[tuple[Origin, Size]], step: Step
) -> None:
    """Write an origin on every tensor of a result, with the trail of a step that made it."""
    if isinstance(result, Tensor):
        set_origin(result, add_step(moved, sources, step))
        return
    for place, tensor in enumerate(result):
        if isinstance(tensor, Tensor):
            set_origin(tensor, add_step(moved, sources, step, place))


def _is_picked(moved: Origin, origin: Origin, result: Tensor, source: Tensor) -> bool:
    """True if a part of a tensor is a single one of its tokens."""
    if isinstance(origin.stage, ManualWeights) or (origin.pair and origin.pair.is_product):
        return False
    if not origin.axis or not moved.axis:
        return bool(origin.axis) and moved.layout == "state"
    return result.shape[moved.axis] == 1 < source.shape[origin.axis]


def _move_origin(call: LayoutCall, source: Tensor, origin: Origin) -> Origin:
    """The origin after a function of layout, by how the tokens lie before it."""
    move = LAYOUTS[call[0]]
    if origin.pair is not None or not origin.axis:
        moved_origin = origin.move_axes(lambda axis: move(call, source, axis))
        pair = moved_origin.pair
        if call[0] in RESHAPES and origin.pair is not None and pair is not None:
            pair = _reshape_pair(call, source, origin.pair, pair)
            return replace(moved_origin, pair=pair)
        return moved_origin
    if origin.layout in ("picture", "grid"):
        return _move_grid(call, source, origin)
    if origin.layout == "flat" and call[0] in RESHAPES:
        axis = split_axis(source, call[3], origin.axis, origin.count)
        if axis != LOST:
            return stream_origin(origin.stream, axis)
    moved = move(call, source, origin.axis)
    if moved:
        return stream_origin(origin.stream, moved, origin.layout, origin.count)
    if moved == LOST and call[0] in RESHAPES and origin.layout != "flat":
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


def _reshape_pair(
    call: LayoutCall, source: Tensor, pair: StreamPair, moved: StreamPair
) -> StreamPair:
    """The pair of reshaped scores or weights; queries may be merged with the axes before them.

    As in `scores.view(-1, keys).softmax(1).view(batch, queries, keys)`: the first view merges the
    queries with the batch, and the second parts them again.
    """
    return moved._replace(
        left=_reshape_side(call[3], source, pair.left, moved.left),
        right=_reshape_side(call[3], source, pair.right, moved.right),
    )


def _reshape_side(
    result: Tensor, source: Tensor, side: StreamSide, moved: StreamSide
) -> StreamSide:
    """One side of reshaped scores, where it is merged with the axes before it or parted again."""
    if not side.axis:
        return moved
    if side.layout == "flat":
        axis = split_axis(source, result, side.axis, side.tokens)
        return moved if axis == LOST else side._replace(axis=axis, layout="tokens", tokens=0)
    if moved.axis == LOST and side.layout == "tokens":
        axis = merged_axes(source, result, side.axis)
        if axis != LOST:
            return side._replace(axis=axis, layout="flat", tokens=source.shape[side.axis])
    return moved


def _part_weights(origin: Origin, result: Tensor) -> Origin:
    """Weights whose queries a reshape parted from the batch, with which softmax had merged them."""
    stage = origin.stage
    assert isinstance(stage, ManualWeights)
    if origin.pair is None or origin.pair.left.layout == "flat":
        return origin
    scores = stage.scores
    if scores.numel() == result.numel():
        scores = scores.reshape(result.shape)
    stage = replace(stage, weights=detach_untraced(result), scores=scores, pair=origin.pair)
    return replace(origin, axis=origin.pair.left.axis, stage=stage)


def _move_grid(call: LayoutCall, source: Tensor, origin: Origin) -> Origin:
    """Tokens on two axes, which become tokens on one where a reshape merges the two."""
    assert origin.axis
    if call[0] in RESHAPES:
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
    if origin is None or origin is UNKNOWN:
        return
    if any(has_trail(part) for part in known):
        dim: int = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        origin = _join_trails(origin, parts, lambda codes: torch.cat(list(codes), dim))
    set_origin(result, in_batch(without_pick(origin)))
    if origin.layout == "input":
        join_inputs(parts, result)


def _join_trails(origin: Origin, parts: Sequence[Tensor], step: Step) -> Origin:
    """The origin of parts that were put together, with the trails of all of them."""
    origin = origin.move_axes(lambda axis: axis)  # without the trail of one part
    return add_step(origin, [(origin_of(part), part.shape) for part in parts], step)


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
    origin = in_batch(origin)
    dim: int = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if origin.layout == "state" and origin.pair is None:
        axis = from_end(dim, result.dim())
        set_origin(result, stream_origin(origin.stream, axis, "steps"))
        return
    call: LayoutCall = (name, (parts[0], dim), {}, result)
    moved = origin.move_axes(lambda axis: axis_after_unsqueeze(call, parts[0], axis))
    if has_trail(origin):
        moved = _join_trails(moved, parts, lambda codes: torch.stack(list(codes), dim))
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


def rearrange(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Numbers in other places, as after sort or gather: no axis holds what it held."""
    origin = first_origin(args, kwargs)
    if origin is None:
        return
    moved = origin.move_axes(lambda axis: LOST)
    source = args[0] if args else kwargs.get("input")
    in_columns = name == "unfold" and isinstance(source, Tensor) and result.dim() < source.dim()
    if in_columns and origin.layout in ("picture", "grid") and origin.pair is None:
        # each place of a picture with its neighbours: tokens of a stream of their own
        set_floats(result, stream_origin(f"{origin.stream}{UNFOLDED}", -1))
        return
    if name == "unfold" and origin.pair is None:
        moved = Origin(origin.stream, LOST, "neighbours")
    if name in REPLAYED and isinstance(source, Tensor) and not source.is_nested:
        moved = add_step(
            moved, [(origin, source.shape)], layout_step((name, args, kwargs, result), source)
        )
    set_floats(result, moved)


def pad(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Numbers put around a tensor: tokens stay on their axes, with padding beside them."""
    elementwise(name, args, kwargs, result)
    source = args[0] if args else kwargs["input"]
    before = origin_of(source)
    if (before.axis is not None or before.pair is not None) and before.stream is not None:
        after = origin_of(result).move_axes(lambda axis: axis)
        set_origin(result, add_step(after, [(before, source.shape)], pad_step(args, kwargs)))


def assign(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Writing into a tensor: scores stay scores where their place is clear, vectors are steps."""
    target, value = args[0], next(reversed(list(tensors_in(args))), None)
    origin = getattr(value, "_regard_origin", None)
    if origin is None or value is target or not isinstance(target, Tensor):
        return
    assert value is not None
    origin = in_batch(without_pick(origin))
    before = origin_of(target)
    if origin.pair is not None and name == "__setitem__":
        write_by_index(target, args[1], origin)
    elif origin.pair is not None:
        _copy_pair(name, target, value, origin)
    if (
        origin.pair is not None
        or (before.trail is not None and origin.axis == LOST)
        or (before is UNKNOWN and origin.trail is not None and origin.axis == LOST)
    ):
        _write_trails(name, args, before, value)
    elif before is UNKNOWN:
        set_origin(target, with_trail(_written_origin(name, args, target, origin), None))


def _write_trails(name: str, args: Args, before: Origin, value: Tensor) -> None:
    """Note where the tokens of a tensor lie in the one that it was written into."""
    target, origin = args[0], origin_of(value)
    after = origin_of(target) if origin.pair else origin.move_axes(lambda axis: LOST)
    if has_trail(origin) or (after.pair is not None and after.pair.is_lost):
        sources = [(before, target.shape), (origin, value.shape)]
        set_origin(target, add_step(after, sources, write_step(name, args)))


def _copy_pair(name: str, target: Tensor, value: Any, origin: Origin) -> None:
    """Copying scores or weights into a tensor of their own shape, or into a part of another."""
    if name == "copy_" and target.shape == value.shape:
        set_origin(target, origin)
        write_through_view(target, origin)
    else:
        set_origin(target, origin.move_axes(lambda axis: LOST))


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
    rule.__name__: rule
    for rule in (layout, join, stack, index_select, rearrange, pad, assign, pad_packed, recur)
}
