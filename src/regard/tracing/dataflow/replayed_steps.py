"""The functions that move numbers, as steps that are done again with codes in place of numbers."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.tracing.dataflow.axis_moves import LAYOUTS, RESHAPES, LayoutCall
from regard.tracing.dataflow.trails import Codes, ReplayError, Step

_EXPANDS = ("expand", "expand_as", "broadcast_to")
# functions that move numbers by positions, not by what the numbers are
REPLAYED = frozenset(
    ("gather", "roll", "flip", "take_along_dim", "as_strided", "unfold", "index_select")
)

_SHUFFLES = frozenset(("gather", "flip", "take_along_dim", "index_select"))


def layout_step(call: LayoutCall, source: Tensor) -> Step:
    """A function of layout or of indices; what it makes may be several tensors."""
    name, args, kwargs, result = call
    shape = result.shape
    if name in RESHAPES:
        return lambda codes: codes[0].reshape(shape)
    if name in _EXPANDS:
        return lambda codes: codes[0].expand(shape)
    strides = source.stride() if name == "as_strided" else None
    assert name in LAYOUTS or name in REPLAYED
    if name == "unfold" and source.dim() - 1 == result.dim():
        return _unfold_step(args[1:], kwargs)
    rest = args[1:]
    options = {key: value for key, value in kwargs.items() if key != "input"}

    def step(codes: Sequence[Codes]) -> Any:
        moved = codes[0]
        if strides is not None:  # reads memory by its own strides
            moved = torch.empty_strided(moved.shape, strides, dtype=moved.dtype).copy_(moved)
        attribute = getattr(moved, name)
        return attribute(*rest, **options) if callable(attribute) else attribute

    step.shuffles = name in _SHUFFLES or (  # type: ignore[attr-defined]
        name == "__getitem__" and _has_indices(rest)
    )
    return step


def _has_indices(args: tuple[Any, ...]) -> bool:
    """True if a tensor or list of indices is among the items of an index."""
    items = args[0] if args and isinstance(args[0], tuple) else args
    return any(isinstance(item, Tensor | list) and _is_indices(item) for item in items)


def _is_indices(item: Any) -> bool:
    return not isinstance(item, Tensor) or item.dim() > 0


def _unfold_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
    """F.unfold, which reads neighbours into features and takes no integers."""

    def step(codes: Sequence[Codes]) -> Codes:
        flat = torch.cat([codes[0].reshape(-1), torch.full((1,), -1)])
        # places count from one, so that the zeros of padding are the code after the last
        places = torch.arange(1, len(flat), dtype=torch.double).view(codes[0].shape)
        read = torch.nn.functional.unfold(places, *args, **kwargs).long() - 1
        return flat[read]

    return step


def pad_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
    """F.pad; padding belongs to no token, unless it repeats tokens."""
    sizes = kwargs.get("pad", args[1] if len(args) > 1 else ())
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")

    def step(codes: Sequence[Codes]) -> Codes:
        if mode != "constant":
            raise ReplayError
        return torch.nn.functional.pad(codes[0], list(sizes), value=-1)

    step.pads = True  # type: ignore[attr-defined]
    return step


def write_step(name: str, args: tuple[Any, ...]) -> Step:
    """A tensor written into a part of another one, or over it."""
    index = args[1]

    def step(codes: Sequence[Codes]) -> Codes:
        target, written = codes
        if name == "copy_":
            return written.expand(target.shape)
        if name != "__setitem__":
            raise ReplayError
        target = target.clone(memory_format=torch.contiguous_format)
        target[index] = written
        return target

    return step
