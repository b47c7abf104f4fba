"""Scores and weights that are written into a tensor part by part: `scores[:, head] = q @ k.mT`.

The tensor that is written to gets the origin of its parts, with their axes where the parts lie in
it. For `scores` of (batch, head, query, key) = (2, 3, 7, 7):

    scores[:, 1] = part      part (2, 7, 7): axes -2 and -1 stay queries and keys
    scores[:, :, 4] = part   part (2, 3, 7), one query: the queries are on the axis that was picked
    scores[..., 2:5] = part  some columns: which keys they are is not known, so the axis is LOST
    torch.matmul(q, k.mT, out=scores[0]), scores[0].copy_(part): the same, through a view
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.tracing.dataflow.axis_moves import LayoutCall, axis_after_index
from regard.tracing.dataflow.origins import (
    LOST,
    ManualWeights,
    Origin,
    StreamPair,
    StreamSide,
    changed_weights,
    origin_of,
    set_origin,
)

AxisInTarget = Callable[[int], int]  # from an axis of a part to one of the whole; LOST if unclear


def write_by_index(target: Tensor, index: Any, origin: Origin) -> None:
    """Note that scores or weights of this origin were written to `target[index]`."""
    with torch._C.DisableTorchFunction():
        view = target[index]
    call: LayoutCall = ("__getitem__", (target, index), {}, view)
    moved = [axis_after_index(call, target, axis) for axis in range(-target.dim(), 0)]
    _write(target, view, [axis or LOST for axis in moved], origin)


def note_output(result: Any) -> None:
    """Note that a function wrote its result to a tensor of the caller's (`out=`)."""
    origin = origin_of(result)
    if isinstance(origin.stage, ManualWeights):
        origin = replace(origin, stage=replace(origin.stage, is_buffer=True))
        set_origin(result, origin)
    if isinstance(result, Tensor):
        write_through_view(result, origin)


def write_through_view(view: Tensor, origin: Origin) -> None:
    """Note that scores or weights of this origin were written to a view of another tensor."""
    target = view._base
    if target is None or origin.pair is None:
        return
    sides = list(zip(view.shape, view.stride(), strict=True))
    strides = [stride for _, stride in sides]
    moved = [
        strides.index(stride) - view.dim() if strides.count(stride) == 1 else LOST
        for stride in target.stride()
    ]
    _write(target, view, moved, origin)


def _write(target: Tensor, view: Tensor, moved: list[int], origin: Origin) -> None:
    """Write the origin of a part on the whole; `moved` is where each axis of it is in the view."""
    count = target.dim()
    places = {axis: place - count for place, axis in enumerate(moved) if axis != LOST}
    picked = [place - count for place, axis in enumerate(moved) if axis == LOST]
    pair = None if origin.pair is None else _pair_in_target(origin.pair, places, picked, target)
    keys = LOST if pair is None or origin.pair is None else pair.right.axis
    is_whole = keys and view.shape[origin.pair.right.axis] == target.shape[keys]  # type: ignore[union-attr,index]
    if pair is not None and pair.left.axis == LOST:  # as where an index picks queries
        is_whole = False
    stage = origin.stage
    before = origin_of(target).pair
    if before is not None:
        before = before.move_axes(lambda axis: axis)  # without its trails
    if (
        not is_whole
        or not (stage is None or isinstance(stage, ManualWeights))
        or before not in (None, pair)
    ):
        set_origin(target, origin.move_axes(lambda axis: LOST))
        return
    assert pair is not None
    written = Origin(pair.left.stream, pair.left.axis, "tokens", pair, stage)
    if isinstance(stage, ManualWeights):
        # parts that are written later are seen too: the weights share the memory of the target
        stage = replace(stage, scores=target.detach(), pair=pair, is_buffer=True)
        written = changed_weights(replace(written, stage=stage), target)
    set_origin(target, written)


def _pair_in_target(
    pair: StreamPair, places: dict[int, int], picked: list[int], target: Tensor
) -> StreamPair:
    """Both sides of a part with their axes in the whole."""
    left, right = (_side_in_target(side, places) for side in (pair.left, pair.right))
    # one query of the keys' own stream at a time: its row is the axis that was picked
    is_row = left.axis is None and left.layout == "state" and left.stream == right.stream
    is_row = is_row and bool(right.axis) and len(picked) == 1
    if is_row and target.shape[picked[0]] == target.shape[right.axis or 0]:
        left = StreamSide(left.stream, picked[0])
    return StreamPair(left, right, pair.is_product)


def _side_in_target(side: StreamSide, places: dict[int, int]) -> StreamSide:
    axis = places.get(side.axis, LOST) if side.axis else side.axis
    return side._replace(axis=axis, trail=None)
