"""Where an axis goes when a function lays a tensor out anew; axes are counted from the end."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from torch import Size, Tensor

from regard.tracing.dataflow.origins import LOST

Call = tuple[str, tuple[Any, ...], dict[str, Any], Tensor]  # name, arguments and result


def dims_of(call: Call, place: int = 1, name: str = "dim") -> tuple[int, ...]:
    """The axes that a function was given, one by one or together."""
    _, args, kwargs, _ = call
    given = kwargs[name] if name in kwargs else args[place:]
    if isinstance(given, tuple | list) and len(given) == 1 and not isinstance(given[0], int):
        given = given[0]
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def from_end(dim: int, count: int) -> int:
    """An axis counted from the end."""
    return dim - count if dim >= 0 else dim


def same(call: Call, source: Tensor, axis: int) -> int:
    """Broadcasting goes from the end: an axis stays where it is, if its size does."""
    return axis


def joined(call: Call, source: Tensor, axis: int) -> int:
    """The axis that holds the same tokens in the same order, by how many numbers lie within."""
    return _joined(source.shape, call[3].shape, axis)


@lru_cache(maxsize=1024)
def _joined(before: Size, after: Size, axis: int) -> int:
    size, within = before[axis], prod(before[axis:][1:])
    behind = 1
    for place in range(-1, -len(after) - 1, -1):
        if behind == within and after[place] == size:
            return place
        behind *= after[place]
    return LOST


def together(source: Tensor, result: Tensor, axis: int) -> int:
    """The axis that holds what two held, this one and the one before it."""
    size, within = prod(source.shape[axis - 1 :][:2]), prod(source.shape[axis:][1:])
    behind = 1
    for place in range(-1, -result.dim() - 1, -1):
        if behind == within and result.shape[place] == size:
            return place
        behind *= result.shape[place]
    return LOST


def apart(source: Tensor, result: Tensor, axis: int, count: int = 0) -> int:
    """The second of two neighbouring axes that hold what one held, perhaps of a known size."""
    size, within = source.shape[axis], prod(source.shape[axis:][1:])
    behind = 1
    for place in range(-1, -result.dim(), -1):
        last, first = result.shape[place], result.shape[place - 1]
        if behind == within and last * first == size and count in (0, last):
            return place
        behind *= result.shape[place]
    return LOST


def transposed(call: Call, source: Tensor, axis: int) -> int:
    """Two axes in each other's place."""
    name, args, kwargs, _ = call
    count = source.dim()
    if name == "T" and count != 2:
        return -count - 1 - axis
    first, second = -2, -1
    if name in ("transpose", "swapaxes", "swapdims"):
        given = (*args[1:], *kwargs.values())
        first, second = from_end(int(given[0]), count), from_end(int(given[1]), count)
    if axis == first:
        return second
    return first if axis == second else axis


def permuted(call: Call, source: Tensor, axis: int) -> int:
    """Axes in another order."""
    count = source.dim()
    order = [from_end(each, count) for each in dims_of(call, name="dims")]
    return order.index(axis) - count


def strided(call: Call, source: Tensor, axis: int) -> int:
    """The axis with the same size and stride, of a view that moves axes."""
    _, _, _, result = call
    wanted = (source.shape[axis], source.stride(axis))
    sides = zip(result.shape, result.stride(), strict=True)
    found = [place for place, each in enumerate(sides) if each == wanted]
    return found[0] - result.dim() if len(found) == 1 else LOST


def unsqueezed(call: Call, source: Tensor, axis: int) -> int:
    """A new axis of one."""
    place = from_end(dims_of(call)[0], source.dim() + 1)
    return axis if axis > place else axis - 1


def squeezed(call: Call, source: Tensor, axis: int) -> int | None:
    """Without axes of one."""
    _, args, kwargs, _ = call
    given = dims_of(call) if len(args) > 1 or "dim" in kwargs else range(source.dim())
    count = source.dim()
    gone = [each for dim in given if source.shape[each := from_end(dim, count)] == 1]
    return without(gone, axis)


def without(gone: Sequence[int], axis: int) -> int | None:
    """Where an axis is when others are gone."""
    return None if axis in gone else axis + sum(each > axis for each in gone)


def unbound(call: Call, source: Tensor, axis: int) -> int | None:
    """One of many along an axis."""
    dims = [each for each in dims_of(call)[:1] if isinstance(each, int)] or [0]
    return without([from_end(dims[0], source.dim())], axis)


def repeated(call: Call, source: Tensor, axis: int) -> int:
    """Tokens that are there several times are no tokens; one of them may be spread."""
    _, _, _, result = call
    size = source.shape[axis]
    return axis if size in (1, result.shape[axis]) else LOST


def indexed(call: Call, source: Tensor, axis: int) -> int | None:
    """What an index leaves: numbers pick, slices keep, tensors rearrange."""
    index = call[1][1]
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(_width(each) for each in items)
    if not any(each is Ellipsis for each in items):
        items.append(Ellipsis)
    rest = source.dim() - used
    if sum(isinstance(each, Tensor | list) for each in items) > 1:
        return LOST
    return _walk(items, rest, source.dim(), axis, call[3].dim())


def _width(item: Any) -> int:
    """How many axes of the tensor an item of an index stands for."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.dim() if isinstance(item, Tensor) and item.dtype.itemsize == 1 else 1


def _walk(items: list[Any], rest: int, count: int, axis: int, left: int) -> int | None:
    before, after = 0, 0  # axes of the tensor, and of the result, up to the item
    wanted = count + axis
    for item in items:
        width = rest if item is Ellipsis else _width(item)
        if before <= wanted < before + width:
            if isinstance(item, Tensor | list):
                scalar = isinstance(item, Tensor) and item.dim() == 0
                return None if scalar else LOST
            if isinstance(item, int) or not (item is Ellipsis or isinstance(item, slice)):
                return None
            if isinstance(item, slice) and item.step not in (None, 1):
                return LOST
            return after + wanted - before - left
        before += width
        after += _kept(item, rest)
    return LOST


def _kept(item: Any, rest: int) -> int:
    """How many axes of the result an item of an index leaves."""
    if item is Ellipsis:
        return rest
    if isinstance(item, Tensor):
        return 1 if item.dtype.itemsize == 1 else item.dim()
    return 1 if item is None or isinstance(item, slice | list) else 0


def selected(call: Call, source: Tensor, axis: int) -> int | None:
    """One of an axis."""
    return without([from_end(int(dims_of(call)[0]), source.dim())], axis)


LAYOUTS: dict[str, Callable[[Call, Tensor, int], int | None]] = {
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"), joined),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), transposed),
    **dict.fromkeys(("t", "mT", "T", "mH", "H", "adjoint"), transposed),
    **dict.fromkeys(("movedim", "moveaxis"), strided),
    "unsqueeze": unsqueezed,
    "squeeze": squeezed,
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), repeated),
    **dict.fromkeys(("repeat", "repeat_interleave", "tile"), repeated),
    **dict.fromkeys(("split", "chunk", "tensor_split", "narrow", "split_with_sizes"), same),
    "permute": permuted,
    "unbind": unbound,
    "select": selected,
    "__getitem__": indexed,
}
