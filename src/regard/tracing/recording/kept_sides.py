"""Copies kept queries, keys and weights before the model writes to their memory.

Records keep queries and keys as they are, without a copy, because few models write to them again::

    y = attend(x, x, x)     the record keeps x
    x += y                  now x holds other numbers

So the watcher asks before each function that writes in place. Only then the memory of kept sides is
looked up, and those that share it are copied. A record holds its sides as tensors of its own, made
by `detach`, so that putting the copy into such a tensor leaves the model's tensor as it is.
"""

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.tracing.dataflow.origins import tensors_in
from regard.tracing.readable import is_tracing

__all__ = ["KeptSides", "may_write", "own_copy"]

_OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
)
_WRITING = frozenset(("__setitem__", *(f"__i{name}__" for name in _OPERATORS)))


class _Writers(dict[str, bool]):
    """Whether the function of a name writes to its first operand."""

    def __missing__(self, name: str) -> bool:
        writes = name in _WRITING or (name.endswith("_") and not name.endswith("__"))
        self[name] = writes
        return writes


_writers = _Writers()


def may_write(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if a function may write to its tensors: `add_`, `x[0] = 1`, `out=`, `inplace=True`."""
    if _writers[name]:
        return True
    if kwargs and ("out" in kwargs or kwargs.get("inplace")):
        return True
    return len(args) > 1 and args[-1] is True  # as in relu(x, True)


def own_copy(side: Tensor) -> Tensor:
    """A query or key outside the graph; copied if it is a parameter, which training writes to."""
    base = side if side._base is None else side._base
    return side.detach().clone() if isinstance(base, nn.Parameter) else side.detach()


class KeptSides:
    """Queries, keys and weights that the records of a block keep, by the memory that they share."""

    def __init__(self) -> None:
        self._new: list[weakref.ref[Tensor]] = []  # not yet looked up
        self._by_memory: dict[int, list[weakref.ref[Tensor]]] = {}

    def add(self, *sides: Tensor) -> None:
        """Look after tensors of a record, which are none of the model's own objects."""
        self._new += map(weakref.ref, sides)

    def save(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Copy the sides that share memory with tensors that are about to be written to."""
        if not (self._new or self._by_memory) or is_tracing():
            return
        for reference in self._new:
            side = reference()
            if side is not None and (memory := _memory_of(side)):
                self._by_memory.setdefault(memory, []).append(reference)
        self._new.clear()
        for target in tensors_in((*args[:1], kwargs.get("input"), kwargs.get("out"))):
            for reference in self._by_memory.pop(_memory_of(target), ()):
                side = reference()
                if side is not None:
                    side.data = side.clone()


def _memory_of(tensor: Tensor) -> int:
    """The identity of the memory of a plain tensor; 0 for any other."""
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_inference() or tensor.is_nested:
        return 0
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return 0
    if tensor.layout is not torch.strided:  # sparse ones have no memory that could be asked for
        return 0
    return int(tensor.untyped_storage()._cdata)
