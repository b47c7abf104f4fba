"""Masks: which keys a query may see; boolean, without parameters, joined by `&`, `|` and `~`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.masks.value import Area, Part, Value, fit, fit_broadcast, four_axes, sizes_of

Seen = Bool[Tensor, "batch head query key"]


class Mask(Value, ABC):
    """Which keys a query may see; joined by `&`, `|` and `~`.

    >>> from regard.masks import causal, window
    >>> band = causal() & window(1, 1)
    >>> band
    causal() & window(1, 1)
    >>> band.dense(3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    @abstractmethod
    def cut(self, area: Area) -> Seen:
        """True where a query of the area sees a key of it."""

    def split(self) -> tuple["Window", "Mask | None"]:
        """A window and the rest such that `window & rest` is this mask; None is no rest."""
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
        """All True."""
        return UNLIMITED.cut(area)

    def split(self) -> tuple["Window", Mask | None]:
        """No limit and no rest."""
        return UNLIMITED, None

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Everything fits any call."""

    def __repr__(self) -> str:
        return "everything()"


@dataclass(frozen=True, eq=False, repr=False)
class Window(Mask):
    """A query at position p sees positions p - left .. p + right; None is no limit."""

    left: int | None
    right: int | None

    def cut(self, area: Area) -> Seen:
        """True on a band along the diagonal."""
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
        """A window fits any call."""

    def reach(self, area: Area) -> range:
        """Those columns of the area that one of its rows can see, as one run."""
        first, stop = area.columns.start, area.columns.stop
        if self.left is not None:
            first = max(first, area.offset + area.rows.start - self.left)
        if self.right is not None:
            stop = min(stop, area.offset + area.rows.stop + self.right)
        return range(first, max(first, stop))

    def covers(self, area: Area) -> bool:
        """Whether each row of the area sees each column of it."""
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
        """True before each example's end."""
        column = torch.arange(area.columns.start, area.columns.stop, device=area.device)
        return (column < self.sizes.to(device=area.device)[:, None])[:, None, None, :]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """One length for each example."""
        fit("lengths", self.sizes.shape, "batch", (batch,))

    def within(self, part: Part) -> "Lengths":
        """The length of the example, counted from the part's first column."""
        sizes = self.sizes[part.example : part.example + 1]
        return Lengths(sizes - part.columns.start)

    def __repr__(self) -> str:
        return f"lengths({self.sizes.tolist()})"


@dataclass(frozen=True, eq=False, repr=False)
class Padding(Mask):
    """A key is seen, by every query, where `real` is True; the others are padding."""

    real: Bool[Tensor, "batch key"]

    def cut(self, area: Area) -> Seen:
        """The real keys of each example."""
        return area.of(self.real[:, None, None, :])

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """One truth value for each key of each example."""
        fit("padding", self.real.shape, "batch key", (batch, keys))

    def within(self, part: Part) -> "Padding":
        """The example's columns."""
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
        """One segment number for each query and each key."""
        fit("query segments", self.query.shape, "batch query", (batch, queries))
        fit("key segments", self.key.shape, "batch key", (batch, keys))

    def within(self, part: Part) -> "Segments":
        """The example's rows and columns."""
        query, key = self.query[:, None, :, None], self.key[:, None, None]
        return Segments(part.of(query)[:, 0, :, 0], part.of(key)[:, 0, 0])

    def __repr__(self) -> str:
        return f"segments({sizes_of(self.query)}, {sizes_of(self.key)})"


@dataclass(frozen=True, eq=False, repr=False)
class Explicit(Mask):
    """Seen where the tensor is True."""

    seen: Seen

    def cut(self, area: Area) -> Seen:
        """The area of the tensor."""
        return area.of(self.seen)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Each axis is of size one or that of the call."""
        fit_broadcast("the explicit mask", self.seen.shape, (batch, heads, queries, keys))

    def within(self, part: Part) -> "Explicit":
        """The part of the tensor."""
        return Explicit(part.of(self.seen))

    def __repr__(self) -> str:
        return f"explicit({sizes_of(self.seen)})"


@dataclass(frozen=True, eq=False, repr=False)
class AllOf(Mask):
    """Seen where every part sees it."""

    parts: tuple[Mask, ...]

    def cut(self, area: Area) -> Seen:
        """The conjunction of the parts."""
        seen = self.parts[0].cut(area)
        for part in self.parts[1:]:
            seen = seen & part.cut(area)
        return seen

    def split(self) -> tuple[Window, Mask | None]:
        """The window common to the parts, and their rests together."""
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
    """Seen where some part sees it."""

    parts: tuple[Mask, ...]

    def cut(self, area: Area) -> Seen:
        """The disjunction of the parts."""
        seen = self.parts[0].cut(area)
        for part in self.parts[1:]:
            seen = seen | part.cut(area)
        return seen

    def split(self) -> tuple[Window, Mask | None]:
        """The narrowest window around all parts, and this mask itself."""
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
    """Seen where the part does not see it."""

    part: Mask

    def cut(self, area: Area) -> Seen:
        """The negation of the part."""
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
    near, far = (None if side in (None, math.inf) else int(side or 0) for side in (left, right))
    if near is not None and far is not None and near + far < 0:
        raise InputError(f"window({left}, {right}) is empty; expected left + right >= 0")
    return Window(near, far)


def causal() -> Window:
    """A query sees itself and what came before it: window(inf, 0)."""
    return Window(None, 0)


def lengths(sizes: Int[Tensor, " batch"] | Sequence[int]) -> Mask:
    """Example b has sizes[b] keys; the keys beyond are padding.

    >>> from regard.masks import lengths
    >>> lengths([2, 3]).dense(1, 3)[:, 0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return Lengths(torch.as_tensor(sizes))


def padding(real: Bool[Tensor, "batch key"]) -> Mask:
    """A key is seen where `real` is True, as in the attention_mask of a tokenizer made boolean."""
    _boolean("padding", real)
    return Padding(real)


def segments(
    query: Int[Tensor, "batch query"], key: Int[Tensor, "batch key"] | None = None
) -> Mask:
    """A query sees the keys of its own segment; without `key`, self-attention."""
    return Segments(query, query if key is None else key)


def explicit(seen: Bool[Tensor, "..."]) -> Mask:
    """Seen where the tensor is True; axes (query key), (batch query key) or with head second."""
    _boolean("explicit", seen)
    return Explicit(four_axes("an explicit mask", seen))


def _boolean(name: str, dense: Tensor) -> None:
    if dense.dtype != torch.bool:
        raise ShapeError(
            f"{name}(...) expected a boolean tensor, True where a key is seen, got {dense.dtype}; "
            "use tensor != 0, or masks.tensor_bias for numbers added to the scores"
        )
