"""Tensors that are only made when their numbers are read: masks, and weights that nobody reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.utils._pytree import tree_map

from regard.masks import Mask
from regard.tracing.mask_reading.index_rules import MaskFacts

# questions that are answered from the outside of a tensor, without making its numbers
_ANSWERED_UNMADE: set[Any] = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_cuda")
} | {Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point, Tensor.__len__}


@dataclass(eq=False)
class TensorRecipe:
    """A function that makes a tensor, and the tensor once it was made."""

    make: Callable[[], Tensor]
    made: Tensor | None = None
    version: int | None = None  # the version counter when the tensor was first handed out

    def tensor(self) -> Tensor:
        """The tensor, made now if it was not made before."""
        if self.made is None:
            with torch._C.DisableTorchFunction():
                self.made = self.make()
        if self.version is None:
            self.version = -1 if self.made.is_inference() else self.made._version
        return self.made

    @property
    def may_have_changed(self) -> bool:
        """True if the model may have written into the tensor since it was handed out.

        A tensor of inference mode has no version counter, so it always may have changed.
        """
        if self.made is None or self.version is None:
            return False
        return self.made.is_inference() or self.made._version != self.version


class LazyTensor(Tensor):
    """A tensor whose shape, dtype and device are known; reading its numbers makes them."""

    recipe: TensorRecipe

    @staticmethod
    def __new__(
        cls, recipe: TensorRecipe, sizes: Any, dtype: torch.dtype, device: torch.device
    ) -> Any:
        """A wrapper of these sizes; no memory is allocated for the numbers."""
        lazy: Any = Tensor._make_wrapper_subclass(cls, sizes, dtype=dtype, device=device)
        lazy.recipe = recipe
        return lazy

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def dense(self) -> Tensor:
        """The tensor with its numbers."""
        return self.recipe.tensor()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer questions of shape and dtype, crop without making, else make the tensor."""
        kwargs = kwargs or {}
        if function in _ANSWERED_UNMADE:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **kwargs)
        if function is Tensor.__getitem__ and isinstance(args[0], LazyTensor):
            part = args[0].crop(args[1])
            if part is not None:
                return part
        return function(*tree_map(_make_dense, args), **tree_map(_make_dense, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Calls that come from C++ do not pass `__torch_function__`; they get the dense tensor."""
        return function(*tree_map(_make_dense, args), **tree_map(_make_dense, kwargs or {}))

    def crop(self, index: Any) -> "LazyTensor | None":
        """The indexed part, still lazy; None if the tensor has to be made for it."""
        return None

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<{type(self).__name__} {tuple(self.shape)}>"


def _make_dense(value: Any) -> Any:
    return value.dense() if isinstance(value, LazyTensor) else value


class LazyMask(LazyTensor):
    """A mask (batch, 1, query, key) that carries its facts until its numbers are read.

    A part of a mask shares the recipe of the whole; `corner` is its first row and column there.
    """

    facts: MaskFacts
    corner: tuple[int, int] = (0, 0)

    @classmethod
    def of(
        cls, facts: MaskFacts, recipe: TensorRecipe, dtype: torch.dtype, device: torch.device
    ) -> "LazyMask":
        """A mask that the facts describe completely; the recipe makes the dense one."""
        batch, _, queries, keys = facts.sizes
        lazy: LazyMask = cls(recipe, (batch, 1, queries, keys), dtype, device)
        lazy.facts = facts
        return lazy

    def dense(self) -> Tensor:
        """The mask with its numbers, exactly as the model's own function makes it."""
        (top, left), (_, _, queries, keys) = self.corner, self.facts.sizes
        return self.recipe.tensor()[:, :, top : top + queries, left : left + keys]

    @property
    def current_facts(self) -> MaskFacts | None:
        """The facts, or None if the model may have written into the mask since."""
        return None if self.recipe.may_have_changed else self.facts

    def crop(self, index: Any) -> "LazyMask | None":
        """The part that slices of rows and columns take, still lazy; None for other indices."""
        slices = _row_and_column_slices(index)
        if slices is None or self.current_facts is None:
            return None
        rows, columns = (
            range(*part.indices(size)) for part, size in zip(slices, self.shape[2:], strict=True)
        )
        if not rows or not columns or rows.step != 1 or columns.step != 1:
            return None
        part = LazyMask.of(self.facts.crop(rows, columns), self.recipe, self.dtype, self.device)
        part.corner = (self.corner[0] + rows.start, self.corner[1] + columns.start)
        return part

    def without_unwritten_keys(self) -> "LazyMask":
        """The mask without the keys after the last query's own, which a static cache reserves."""
        _, _, queries, keys = self.facts.sizes
        last = max(1, self.facts.offset + queries)
        if self.facts.window.right != 0 or last >= keys:
            return self
        part = self.crop((..., slice(last)))
        return self if part is None else part

    def rows(self, rows: list[int]) -> Tensor:
        """Some rows of the dense mask, computed from the facts."""
        facts, device = self.facts, self.device
        batch = torch.arange(facts.sizes.batch, device=device)[:, None, None]
        columns = torch.arange(facts.sizes.keys, device=device)
        queries = torch.tensor(rows, device=device)[:, None]
        visible = facts.is_visible(batch, queries, columns)[:, None]
        if self.dtype == torch.bool:
            return visible
        added = torch.zeros(visible.shape, dtype=self.dtype, device=device)
        return added.masked_fill(~visible, torch.finfo(self.dtype).min)


def _row_and_column_slices(index: Any) -> tuple[slice, slice] | None:
    """The slices of rows and columns in an index of a mask; None for any other index."""
    index = index if isinstance(index, tuple) else (index,)
    free = [slice(None)] * (4 - sum(item is not Ellipsis for item in index))
    dots = next((axis for axis, item in enumerate(index) if item is Ellipsis), len(index))
    index = (*index[:dots], *free, *index[dots + 1 :])
    if len(index) != 4 or not all(isinstance(item, slice) for item in index):
        return None
    batch, head, rows, columns = index
    return (rows, columns) if batch == head == slice(None) else None


def describe_lazy_mask(mask: Tensor | None, batch: int) -> Mask | None:
    """The description that a lazy mask carries, for a batch of this size; None for other masks."""
    facts = mask.current_facts if isinstance(mask, LazyMask) else None
    return None if facts is None else facts.for_batch(batch).mask


def levelled_rows(mask: Tensor | None, batch: int) -> Bool[Tensor, "batch query"] | None:
    """The queries that weigh all keys equally, because a lazy mask of numbers hides every key.

    The numbers are the smallest of the dtype, to which a score adds nothing. None for no query,
    and for other masks.
    """
    facts = mask.current_facts if isinstance(mask, LazyMask) else None
    if facts is None or mask is None or not mask.is_floating_point():
        return None
    return facts.for_batch(batch).empty_rows


def first_query_position(mask: Tensor | None, default: int) -> int:
    """The key at which the first query stands by a lazy mask; the default for other masks."""
    facts = mask.current_facts if isinstance(mask, LazyMask) else None
    return default if facts is None else facts.offset
