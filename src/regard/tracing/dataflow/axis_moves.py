"""Where an axis of a tensor goes in view, permute, indexing and other functions of layout.

Axes are counted from the end. Each function returns the new axis, None if the axis is gone, and
LOST if its tokens are no longer in order on any axis. For a tensor x of shape (2, 7, 32), whose
axis -2 holds 7 tokens:

    x.view(2, 7, 4, 8)   -> axis -3          x[:, 0]   -> None, a single token is left
    x.transpose(1, 2)    -> axis -1          x.view(2, 8, 28)   -> LOST
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from torch import Size, Tensor

from regard.tracing.dataflow.origins import LOST

# the name of the function, its positional and keyword arguments, and its result
LayoutCall = tuple[str, tuple[Any, ...], dict[str, Any], Tensor]
RESHAPES = frozenset(("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"))


def axis_arguments(call: LayoutCall, place: int = 1, name: str = "dim") -> tuple[int, ...]:
    """The axes in the arguments of a function, passed one by one or as a tuple."""
    _, args, kwargs, _ = call
    dims = kwargs[name] if name in kwargs else args[place:]
    if isinstance(dims, tuple | list) and len(dims) == 1 and not isinstance(dims[0], int):
        dims = dims[0]
    return tuple(dims) if isinstance(dims, tuple | list) else (dims,)


def from_end(dim: int, count: int) -> int:
    """The axis, counted from the end."""
    return dim - count if dim >= 0 else dim


def keep_axis(call: LayoutCall, source: Tensor, axis: int) -> int:
    """The same axis: splitting a tensor does not move its axes."""
    return axis


def axis_after_reshape(call: LayoutCall, source: Tensor, axis: int) -> int:
    """The axis of a reshaped tensor that holds the same tokens in the same order."""
    return _find_axis(source.shape, call[3].shape, axis)


@lru_cache(maxsize=1024)
def _find_axis(before: Size, after: Size, axis: int) -> int:
    """The axis of the new shape with the same size, and as many numbers in the axes behind it.

    Several axes of size one may fit, as at a decoding step of one token. Then it is the one that
    is as far from the end as before, or else as far from the beginning. A single token may also
    change places with its heads: (2, 1, 32) becomes (2, 4, 1, 8) without a transpose.
    """
    size, within = before[axis], prod(before[axis:][1:])
    if size == 1 and -axis <= len(after) and after[axis] == 1:
        return axis
    behind, fitting = 1, list[int]()
    for candidate in range(-1, -len(after) - 1, -1):
        if behind == within and after[candidate] == size:
            fitting.append(candidate)
        behind *= after[candidate]
    for place in (axis, axis + len(before) - len(after)):
        if place in fitting:
            return place
    return fitting[0] if fitting else LOST


def merged_axis(source: Tensor, result: Tensor, axis: int) -> int:
    """The axis of the result into which this axis and the one before it were merged."""
    size, within = prod(source.shape[axis - 1 :][:2]), prod(source.shape[axis:][1:])
    behind = 1
    for place in range(-1, -result.dim() - 1, -1):
        if behind == within and result.shape[place] == size:
            return place
        behind *= result.shape[place]
    return LOST


def merged_axes(source: Tensor, result: Tensor, axis: int) -> int:
    """The axis of the result into which this axis and one or more before it were merged."""
    within = prod(source.shape[axis:][1:])
    sizes = {
        prod(source.shape[first : source.dim() + axis + 1]) for first in range(source.dim() + axis)
    }
    behind = 1
    for place in range(-1, -result.dim() - 1, -1):
        if behind == within and result.shape[place] in sizes:
            return place
        behind *= result.shape[place]
    return LOST


def split_axis(source: Tensor, result: Tensor, axis: int, count: int = 0) -> int:
    """The second of two neighbouring axes into which an axis was split; `count` is its size."""
    size, within = source.shape[axis], prod(source.shape[axis:][1:])
    behind = 1
    for place in range(-1, -result.dim(), -1):
        last, first = result.shape[place], result.shape[place - 1]
        if behind == within and last * first == size and count in (0, last):
            return place
        if behind == within and last == count and size % count == 0:
            return place
        behind *= result.shape[place]
    return LOST


def axis_after_transpose(call: LayoutCall, source: Tensor, axis: int) -> int:
    """Where an axis is after two axes changed places."""
    name, args, kwargs, _ = call
    count = source.dim()
    if name == "T" and count != 2:
        return -count - 1 - axis
    first, second = -2, -1
    if name in ("transpose", "swapaxes", "swapdims"):
        dims = (*args[1:], *kwargs.values())
        first, second = from_end(int(dims[0]), count), from_end(int(dims[1]), count)
    if axis == first:
        return second
    return first if axis == second else axis


def axis_after_permute(call: LayoutCall, source: Tensor, axis: int) -> int:
    """Where an axis is after all axes were put in another order."""
    count = source.dim()
    order = [from_end(dim, count) for dim in axis_arguments(call, name="dims")]
    return order.index(axis) - count


def axis_by_stride(call: LayoutCall, source: Tensor, axis: int) -> int:
    """The axis with the same size and stride in a view that moves axes, if there is just one."""
    _, _, _, result = call
    own = (source.shape[axis], source.stride(axis))
    sides = zip(result.shape, result.stride(), strict=True)
    matching = [place for place, side in enumerate(sides) if side == own]
    return matching[0] - result.dim() if len(matching) == 1 else LOST


def axis_after_unsqueeze(call: LayoutCall, source: Tensor, axis: int) -> int:
    """Where an axis is after a new axis of size one was inserted."""
    place = from_end(axis_arguments(call)[0], source.dim() + 1)
    return axis if axis > place else axis - 1


def axis_after_squeeze(call: LayoutCall, source: Tensor, axis: int) -> int | None:
    """Where an axis is after axes of size one were removed."""
    _, args, kwargs, _ = call
    dims = axis_arguments(call) if len(args) > 1 or "dim" in kwargs else range(source.dim())
    count = source.dim()
    removed = [place for dim in dims if source.shape[place := from_end(dim, count)] == 1]
    return axis_without(removed, axis)


def axis_without(removed: Sequence[int], axis: int) -> int | None:
    """Where an axis is after other axes were removed."""
    return None if axis in removed else axis + sum(other > axis for other in removed)


def axis_after_unbind(call: LayoutCall, source: Tensor, axis: int) -> int | None:
    """Where an axis is in the slices of a tensor along another axis."""
    dims = [dim for dim in axis_arguments(call)[:1] if isinstance(dim, int)] or [0]
    return axis_without([from_end(dims[0], source.dim())], axis)


def axis_after_expand(call: LayoutCall, source: Tensor, axis: int) -> int:
    """The same axis, unless its tokens were repeated; a single token may be broadcast."""
    _, _, _, result = call
    size = source.shape[axis]
    return axis if size in (1, result.shape[axis]) else LOST


def axis_after_index(call: LayoutCall, source: Tensor, axis: int) -> int | None:
    """Where an axis is after indexing: integers pick, slices keep, tensors rearrange."""
    index = call[1][1]
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(_source_axes(item) for item in items)
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    rest = source.dim() - used
    if sum(isinstance(item, Tensor | list) for item in items) > 1:
        return LOST
    return _axis_through_items(items, rest, source.dim(), axis, call[3].dim())


def _source_axes(item: Any) -> int:
    """How many axes of the indexed tensor an item of the index uses."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.dim() if isinstance(item, Tensor) and item.dtype.itemsize == 1 else 1


def _axis_through_items(
    items: list[Any], rest: int, count: int, axis: int, left: int
) -> int | None:
    """Where an axis is in the result, walking through the items of the index from the left.

    `rest` is how many axes an ellipsis stands for; `count` and `left` are the numbers of axes of
    the indexed tensor and of the result.
    """
    before, after = 0, 0  # axes of the tensor, and of the result, up to the item
    place = count + axis
    for item in items:
        width = rest if item is Ellipsis else _source_axes(item)
        if before <= place < before + width:
            if isinstance(item, Tensor | list):
                scalar = isinstance(item, Tensor) and item.dim() == 0
                return None if scalar else LOST
            if isinstance(item, int) or not (item is Ellipsis or isinstance(item, slice)):
                return None
            if isinstance(item, slice) and item.step not in (None, 1):
                return LOST
            return after + place - before - left
        before += width
        after += _result_axes(item, rest)
    return LOST


def _result_axes(item: Any, rest: int) -> int:
    """How many axes of the result an item of the index makes."""
    if item is Ellipsis:
        return rest
    if isinstance(item, Tensor):
        return 1 if item.dtype.itemsize == 1 else item.dim()
    return 1 if item is None or isinstance(item, slice | list) else 0


def axis_after_select(call: LayoutCall, source: Tensor, axis: int) -> int | None:
    """Where an axis is after one index of another axis was selected."""
    return axis_without([from_end(int(axis_arguments(call)[0]), source.dim())], axis)


LAYOUTS: dict[str, Callable[[LayoutCall, Tensor, int], int | None]] = {
    **dict.fromkeys(RESHAPES, axis_after_reshape),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), axis_after_transpose),
    **dict.fromkeys(("t", "mT", "T", "mH", "H", "adjoint"), axis_after_transpose),
    **dict.fromkeys(("movedim", "moveaxis"), axis_by_stride),
    "unsqueeze": axis_after_unsqueeze,
    "squeeze": axis_after_squeeze,
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), axis_after_expand),
    **dict.fromkeys(("repeat", "repeat_interleave", "tile"), axis_after_expand),
    **dict.fromkeys(("split", "chunk", "tensor_split", "narrow", "split_with_sizes"), keep_axis),
    "permute": axis_after_permute,
    "unbind": axis_after_unbind,
    "select": axis_after_select,
    "__getitem__": axis_after_index,
}
