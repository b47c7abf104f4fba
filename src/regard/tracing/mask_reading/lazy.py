"""Tensors that are made when they are read: masks that stay descriptions, weights nobody wants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from regard.masks import Mask
from regard.tracing.mask_reading.index_rules import Reading

# what may be asked of a tensor that is not there yet
_OUTSIDES: set[Any] = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_cuda")
} | {Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point, Tensor.__len__}


@dataclass(eq=False)
class Making:
    """How a tensor is made, and the tensor once it has been."""

    make: Callable[[], Tensor]
    made: Tensor | None = None
    version: int | None = None  # when it was first handed out

    def whole(self) -> Tensor:
        """The tensor itself."""
        if self.made is None:
            with torch._C.DisableTorchFunction():
                self.made = self.make()
        if self.version is None:
            self.version = -1 if self.made.is_inference() else self.made._version
        return self.made

    @property
    def changed(self) -> bool:
        """Whether somebody may have written into it; torch does not count for inference."""
        if self.made is None or self.version is None:
            return False
        return self.made.is_inference() or self.made._version != self.version


class Unmade(Tensor):
    """A tensor of which the outside is known; whatever reads its numbers has it made."""

    making: Making

    @staticmethod
    def __new__(cls, making: Making, sizes: Any, dtype: torch.dtype, device: torch.device) -> Any:
        """Nothing is allocated."""
        fresh: Any = Tensor._make_wrapper_subclass(cls, sizes, dtype=dtype, device=device)
        fresh.making = making
        return fresh

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def dense(self) -> Tensor:
        """The tensor itself."""
        return self.making.whole()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer what concerns the outside; for all else the tensor is made."""
        kwargs = kwargs or {}
        if function in _OUTSIDES:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **kwargs)
        if function is Tensor.__getitem__ and isinstance(args[0], Unmade):
            part = args[0].part(args[1])
            if part is not None:
                return part
        return function(*tree_map(_dense, args), **tree_map(_dense, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What comes past the door above, from C++, is given the tensor too."""
        return function(*tree_map(_dense, args), **tree_map(_dense, kwargs or {}))

    def part(self, index: Any) -> "Unmade | None":
        """What an index takes from it, still unmade; None where it has to be made for that."""
        return None

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<{type(self).__name__} {tuple(self.shape)}>"


def _dense(each: Any) -> Any:
    return each.dense() if isinstance(each, Unmade) else each


class LazyMask(Unmade):
    """A mask (batch, 1, query, key) that is a reading until somebody wants its numbers."""

    reading: Reading
    corner: tuple[int, int] = (0, 0)

    @classmethod
    def of(
        cls, reading: Reading, making: Making, kind: torch.dtype, device: torch.device
    ) -> "LazyMask":
        """A mask that the reading says in full; `making` makes the dense one."""
        batch, _, queries, keys = reading.sizes
        fresh: LazyMask = cls(making, (batch, 1, queries, keys), kind, device)
        fresh.reading = reading
        return fresh

    def dense(self) -> Tensor:
        """The mask itself, as its makers make it."""
        (top, left), (_, _, queries, keys) = self.corner, self.reading.sizes
        return self.making.whole()[:, :, top : top + queries, left : left + keys]

    @property
    def told(self) -> Reading | None:
        """The reading, if nobody has written into the mask since."""
        return None if self.making.changed else self.reading

    def part(self, index: Any) -> "LazyMask | None":
        """Slices of rows and columns stay a reading."""
        taken = _slices(index)
        if taken is None or self.told is None:
            return None
        rows, columns = (
            range(*each.indices(size)) for each, size in zip(taken, self.shape[2:], strict=True)
        )
        if not rows or not columns or rows.step != 1 or columns.step != 1:
            return None
        part = LazyMask.of(self.reading.cut(rows, columns), self.making, self.dtype, self.device)
        part.corner = (self.corner[0] + rows.start, self.corner[1] + columns.start)
        return part

    def written(self) -> "LazyMask":
        """The mask without keys that lie beyond the last query's own, as in a static cache."""
        _, _, queries, keys = self.reading.sizes
        last = max(1, self.reading.offset + queries)
        if self.reading.window.right != 0 or last >= keys:
            return self
        part = self.part((..., slice(last)))
        return self if part is None else part

    def rows(self, rows: list[int]) -> Tensor:
        """Some rows of it, made of the reading."""
        reading, device = self.reading, self.device
        batch = torch.arange(reading.sizes.batch, device=device)[:, None, None]
        columns = torch.arange(reading.sizes.keys, device=device)
        seen = reading.at(batch, torch.tensor(rows, device=device)[:, None], columns)[:, None]
        if self.dtype == torch.bool:
            return seen
        hidden = torch.finfo(self.dtype).min
        return torch.zeros(seen.shape, dtype=self.dtype, device=device).masked_fill(~seen, hidden)


def _slices(index: Any) -> tuple[slice, slice] | None:
    """The slices that an index takes of rows and columns; None for any other index."""
    index = index if isinstance(index, tuple) else (index,)
    free = [slice(None)] * (4 - sum(each is not Ellipsis for each in index))
    place = next((at for at, each in enumerate(index) if each is Ellipsis), len(index))
    index = (*index[:place], *free, *index[place + 1 :])
    if len(index) != 4 or not all(isinstance(each, slice) for each in index):
        return None
    batch, head, rows, columns = index
    return (rows, columns) if batch == head == slice(None) else None


def told(mask: Tensor | None, batch: int) -> Mask | None:
    """What a mask that was never made means, for so many examples; None for any other mask."""
    reading = mask.told if isinstance(mask, LazyMask) else None
    return None if reading is None else reading.spread(batch).mask


def place_of(mask: Tensor | None, otherwise: int) -> int:
    """Where the first query stands, if a mask that was never made says so."""
    reading = mask.told if isinstance(mask, LazyMask) else None
    return otherwise if reading is None else reading.offset
