"""Masks: which keys a query may see. They have no parameters and combine with `&`, `|` and `~`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.arguments import check_type
from regard.errors import InputError, ShapeError
from regard.masks.value import Area, Part, Value, fit, fit_broadcast, four_axes, sizes_of

Seen = Bool[Tensor, "batch head query key"]


class Mask(Value, ABC):
    """Which keys a query may see; masks combine with `&`, `|` and `~`.

    >>> from regard.masks import causal, window
    >>> band = causal() & window(1, 1)
    >>> band
    causal() & window(1, 1)
    >>> band.dense(3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    @abstractmethod
    def cut(self, area: Area) -> Seen:
        """The mask of an area as a tensor, True where a query sees a key."""

    def split(self) -> tuple["Window", "Mask | None"]:
        """A window and a rest whose conjunction is this mask; the rest is None if there is none.

        Kernels skip the keys outside the window and make only the rest dense.
        """
        return UNLIMITED, self

    def dense(
        self, queries: int, keys: int, *, offset: int = 0, device: torch.device | None = None
    ) -> Seen:
        """The whole mask as a tensor, True where a query sees a key."""
        return self.cut(Area(range(queries), range(keys), offset, device))

    def __and__(self, other: "Mask") -> "Mask":
        if isinstance(other, Everything):
            return self
        return other if isinstance(self, Everything) else AllOf((self, other))

    def __or__(self, other: "Mask") -> "Mask":
        return AnyOf((self, other))

    def __invert__(self) -> "Mask":
        return Not(self)


@dataclass(frozen=True, eq=False, repr=False)
class Everything(Mask):
    """Every query sees every key."""

    def cut(self, area: Area) -> Seen:
        """True for every query and key."""
        return UNLIMITED.cut(area)

    def split(self) -> tuple["Window", Mask | None]:
        """A window without limits, and no rest."""
        return UNLIMITED, None

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Accept any call."""

    def __repr__(self) -> str:
        return "everything()"


@dataclass(frozen=True, eq=False, repr=False)
class Window(Mask):
    """A query at position p sees positions p - left .. p + right; None is no limit."""

    left: int | None
    right: int | None

    def cut(self, area: Area) -> Seen:
        """True in a band along the diagonal."""
        ahead = area.ahead()
        seen = torch.ones_like(ahead, dtype=torch.bool)
        if self.left is not None:
            seen = seen & (ahead >= -self.left)
        if self.right is not None:
            seen = seen & (ahead <= self.right)
        return seen[None, None]

    def split(self) -> tuple["Window", Mask | None]:
        """Itself and no rest."""
        return self, None

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Accept any call."""

    def reach(self, area: Area) -> range:
        """The range of columns of the area that at least one of its rows can see."""
        first, stop = area.columns.start, area.columns.stop
        if self.left is not None:
            first = max(first, area.offset + area.rows.start - self.left)
        if self.right is not None:
            stop = min(stop, area.offset + area.rows.stop + self.right)
        return range(first, max(first, stop))

    def covers(self, area: Area) -> bool:
        """True if every row of the area sees every column of it."""
        # the last row looks back least far, the first row looks ahead least far
        oldest, newest = area.offset + area.rows.start, area.offset + area.rows.stop - 1
        back = self.left is None or newest - self.left <= area.columns.start
        return back and (self.right is None or oldest + self.right >= area.columns.stop - 1)

    def __repr__(self) -> str:
        if (self.left, self.right) == (None, 0):
            return "causal()"
        sides = ("inf" if side is None else str(side) for side in (self.left, self.right))
        return f"window({', '.join(sides)})"


UNLIMITED = Window(None, None)


@dataclass(frozen=True, eq=False, repr=False)
class Lengths(Mask):
    """Example b has sizes[b] keys; the keys beyond are padding."""

    sizes: Int[Tensor, " batch"]

    def cut(self, area: Area) -> Seen:
        """True for keys before the end of each example."""
        column = torch.arange(area.columns.start, area.columns.stop, device=area.device)
        return (column < self.sizes.to(device=area.device)[:, None])[:, None, None, :]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless there is one length for each example."""
        fit("lengths", self.sizes.shape, "batch", (batch,))

    def within(self, part: Part) -> "Lengths":
        """The length of the part's example, counted from the part's first column."""
        sizes = self.sizes[part.example : part.example + 1]
        return Lengths(sizes - part.columns.start)

    def __repr__(self) -> str:
        return f"lengths({self.sizes.tolist()})"


@dataclass(frozen=True, eq=False, repr=False)
class Padding(Mask):
    """A key is seen, by every query, where `real` is True; the others are padding."""

    real: Bool[Tensor, "batch key"]

    def cut(self, area: Area) -> Seen:
        """True for the keys of each example that are not padding."""
        return area.of(self.real[:, None, None, :])

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless there is one truth value for each key of each example."""
        fit("padding", self.real.shape, "batch key", (batch, keys))

    def within(self, part: Part) -> "Padding":
        """The padding of the part's example and columns."""
        return Padding(part.of(self.real[:, None, None])[:, 0, 0])

    def __repr__(self) -> str:
        return f"padding({sizes_of(self.real)}, {int((~self.real).sum())} padded)"


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Mask):
    """A query sees the keys of its own segment, as when several texts are packed in one row."""

    query: Int[Tensor, "batch query"]
    key: Int[Tensor, "batch key"]

    def cut(self, area: Area) -> Seen:
        """True where the segments of query and key are the same."""
        query = area.of(self.query[:, None, :, None])
        return query == area.of(self.key[:, None, None, :])

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless there is one segment number for each query and each key."""
        fit("query segments", self.query.shape, "batch query", (batch, queries))
        fit("key segments", self.key.shape, "batch key", (batch, keys))

    def within(self, part: Part) -> "Segments":
        """The segments of the part's example, rows and columns."""
        query, key = self.query[:, None, :, None], self.key[:, None, None]
        return Segments(part.of(query)[:, 0, :, 0], part.of(key)[:, 0, 0])

    def __repr__(self) -> str:
        return f"segments({sizes_of(self.query)}, {sizes_of(self.key)})"


@dataclass(frozen=True, eq=False, repr=False)
class Explicit(Mask):
    """A key is seen where the tensor is True."""

    seen: Seen

    def cut(self, area: Area) -> Seen:
        """The tensor restricted to the area."""
        return area.of(self.seen)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless each axis has size one or the size of the call."""
        fit_broadcast("the explicit mask", self.seen.shape, (batch, heads, queries, keys))

    def within(self, part: Part) -> "Explicit":
        """The tensor restricted to the part."""
        return Explicit(part.of(self.seen))

    def __repr__(self) -> str:
        return f"explicit({sizes_of(self.seen)})"


@dataclass(frozen=True, eq=False, repr=False)
class AllOf(Mask):
    """A key is seen where every one of the masks shows it."""

    parts: tuple[Mask, ...]

    def cut(self, area: Area) -> Seen:
        """True where all masks are True."""
        seen = self.parts[0].cut(area)
        for part in self.parts[1:]:
            seen = seen & part.cut(area)
        return seen

    def split(self) -> tuple[Window, Mask | None]:
        """The intersection of the masks' windows, and the conjunction of their rests."""
        splits = [part.split() for part in self.parts]
        left = [band.left for band, _ in splits if band.left is not None]
        right = [band.right for band, _ in splits if band.right is not None]
        rests = tuple(rest for _, rest in splits if rest is not None)
        band = Window(min(left, default=None), min(right, default=None))
        return band, AllOf(rests) if len(rests) > 1 else (rests[0] if rests else None)

    def __repr__(self) -> str:
        return " & ".join(f"({p})" if isinstance(p, AnyOf) else str(p) for p in self.parts)


@dataclass(frozen=True, eq=False, repr=False)
class AnyOf(Mask):
    """A key is seen where at least one of the masks shows it."""

    parts: tuple[Mask, ...]

    def cut(self, area: Area) -> Seen:
        """True where any mask is True."""
        seen = self.parts[0].cut(area)
        for part in self.parts[1:]:
            seen = seen | part.cut(area)
        return seen

    def split(self) -> tuple[Window, Mask | None]:
        """The narrowest window around all windows of the masks, and this mask as the rest."""
        bands = [part.split()[0] for part in self.parts]
        left = [band.left for band in bands]
        right = [band.right for band in bands]
        return Window(
            None if None in left else max(side for side in left if side is not None),
            None if None in right else max(side for side in right if side is not None),
        ), self

    def __repr__(self) -> str:
        return " | ".join(map(str, self.parts))


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """A key is seen where the mask hides it."""

    part: Mask

    def cut(self, area: Area) -> Seen:
        """True where the mask is False."""
        return ~self.part.cut(area)

    def __invert__(self) -> Mask:
        return self.part

    def __repr__(self) -> str:
        return f"~({self.part})" if isinstance(self.part, AllOf | AnyOf) else f"~{self.part}"


def everything() -> Mask:
    """Global attention: every query sees every key."""
    return Everything()


def window(left: float | None, right: float | None) -> Window:
    """A query at position p sees positions p - left .. p + right; None or infinity is no limit.

    >>> from regard.masks import window
    >>> window(1, 0).dense(3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    check_type(left, (int, float, type(None)), "window", "left")
    before, after = (None if side in (None, math.inf) else int(side or 0) for side in (left, right))
    if before is not None and after is not None and before + after < 0:
        raise InputError(f"window({left}, {right}) is empty; expected left + right >= 0")
    return Window(before, after)


def causal() -> Window:
    """A query sees its own position and all earlier ones: window(inf, 0)."""
    return Window(None, 0)


def lengths(sizes: Int[Tensor, " batch"] | Sequence[int]) -> Mask:
    """Example b has sizes[b] keys; the keys beyond are padding.

    >>> from regard.masks import lengths
    >>> lengths([2, 3]).dense(1, 3)[:, 0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    check_type(sizes, (Tensor, list, tuple), "lengths", "sizes")
    return Lengths(torch.as_tensor(sizes))


def padding(real: Bool[Tensor, "batch key"]) -> Mask:
    """A key is seen where `real` is True, as in a tokenizer's attention_mask made boolean."""
    check_type(real, Tensor, "padding", "real")
    _check_boolean("padding", real)
    return Padding(real)


def segments(
    query: Int[Tensor, "batch query"], key: Int[Tensor, "batch key"] | None = None
) -> Mask:
    """A query sees the keys of its own segment; without `key`, the segments of the queries."""
    check_type(query, Tensor, "segments", "query")
    return Segments(query, query if key is None else key)


def explicit(seen: Bool[Tensor, "..."]) -> Mask:
    """A key is seen where the tensor is True.

    The axes are (query key), (batch query key) or (batch head query key).
    """
    check_type(seen, Tensor, "explicit", "seen")
    _check_boolean("explicit", seen)
    return Explicit(four_axes("an explicit mask", seen))


def _check_boolean(name: str, dense: Tensor) -> None:
    """Raise a ShapeError unless the tensor is boolean."""
    if dense.dtype != torch.bool:
        raise ShapeError(
            f"{name}(...) expected a boolean tensor, True where a key is seen, got {dense.dtype}; "
            "use tensor != 0, or masks.tensor_bias for numbers added to the scores"
        )
