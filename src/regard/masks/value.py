"""What masks and biases share: the area they are asked about, equality, and a plain-data form."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import ShapeError, UnknownNameError

State = dict[str, Any]
V = TypeVar("V", bound="Value")


@dataclass(frozen=True)
class Area:
    """Some rows (queries) and columns (keys) of one call, whose query i is at position offset + i.

    >>> from regard.masks import Area, causal
    >>> causal().cut(Area(range(1, 3), range(0, 3)))[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """

    rows: range
    columns: range
    offset: int = 0
    device: torch.device | None = None

    def ahead(self) -> Int[Tensor, "query key"]:
        """How far each key lies ahead of each query; negative behind it."""
        first, last = self.offset + self.rows.start, self.offset + self.rows.stop
        query = torch.arange(first, last, device=self.device)
        key = torch.arange(self.columns.start, self.columns.stop, device=self.device)
        return key[None, :] - query[:, None]

    def of(self, dense: Tensor) -> Tensor:
        """Its part of a tensor whose last two axes are query and key, each perhaps of size one."""
        if dense.shape[-2] > 1:
            dense = dense[..., self.rows.start : self.rows.stop, :]
        if dense.shape[-1] > 1:
            dense = dense[..., self.columns.start : self.columns.stop]
        return dense.to(device=self.device)


@dataclass(frozen=True)
class Part:
    """One example of a call: a run of its rows and of its columns, and some heads or (None) all.

    Seen from the part, the call's offset grows by `moved`: rows and columns count from its corner.
    """

    example: int
    rows: range
    columns: range
    heads: tuple[int, ...] | None = None

    @property
    def moved(self) -> int:
        """How much further the part's first row stands from its first column."""
        return self.rows.start - self.columns.start

    def of(self, dense: Tensor) -> Tensor:
        """The part of a tensor with the axes batch, head, query, key, some perhaps of size one."""
        if dense.shape[0] > 1:
            dense = dense[self.example : self.example + 1]
        if dense.shape[1] > 1 and self.heads is not None:
            dense = dense[:, self.heads]
        return Area(self.rows, self.columns, device=dense.device).of(dense)


class Value:
    """A frozen value that compares by content and can be written as plain data."""

    kinds: ClassVar[dict[str, type["Value"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kinds[cls.__name__] = cls

    def fields(self) -> dict[str, Any]:
        """The value's parts by name."""
        return {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}  # type: ignore[arg-type]

    def state(self) -> State:
        """The value as a dictionary of JSON types and tensors, for `restore`."""
        return {"kind": type(self).__name__} | {k: _encode(v) for k, v in self.fields().items()}

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless this value and its parts fit a call of these sizes."""
        for part in self.fields().values():
            for value in part if isinstance(part, tuple) else (part,):
                if isinstance(value, Value):
                    value.check(batch, heads, queries, keys)

    def within(self: V, part: Part) -> V:
        """This value as a part of the call sees it, at the offset that the part has moved."""
        return type(self)(**{name: _parted(each, part) for name, each in self.fields().items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.fields(), other.fields()
        return all(_same(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(type(self))


def restore(state: State) -> Any:
    """The mask or bias whose `state()` this is.

    >>> from regard.masks import causal, restore
    >>> restore(causal().state())
    causal()
    """
    kind = state.get("kind", "")
    if kind not in Value.kinds:
        raise UnknownNameError("kind of mask or bias", str(kind), sorted(Value.kinds))
    parts = {name: _decode(part) for name, part in state.items() if name != "kind"}
    return Value.kinds[kind](**parts)


def fit(name: str, sizes: torch.Size, axes: str, expected: tuple[int, ...]) -> None:
    """Raise a ShapeError unless the sizes are the expected ones, an axis each."""
    if tuple(sizes) != expected:
        call = " ".join(f"{axis}={size}" for axis, size in zip(axes.split(), expected, strict=True))
        raise ShapeError(f"{name} should have shape ({call}) as in this call, got {tuple(sizes)}")


def fit_broadcast(name: str, sizes: torch.Size, expected: tuple[int, int, int, int]) -> None:
    """Raise a ShapeError unless each size is one or the expected one."""
    if any(size not in (1, wanted) for size, wanted in zip(sizes, expected, strict=True)):
        axes = zip(("batch", "head", "query", "key"), expected, strict=True)
        call = " ".join(f"{axis}={size}" for axis, size in axes)
        raise ShapeError(f"{name} should broadcast to ({call}), got {tuple(sizes)}")


def four_axes(name: str, dense: Tensor) -> Tensor:
    """The tensor with axes batch, head, query, key; two are query key, three have batch first."""
    if dense.dim() == 2:
        return dense[None, None]
    if dense.dim() == 3:
        return dense[:, None]
    if dense.dim() == 4:
        return dense
    raise ShapeError(
        f"{name} should have the axes (query key), (batch query key) or (batch head query key), "
        f"got {dense.dim()} of them: {tuple(dense.shape)}"
    )


def sizes_of(dense: Tensor) -> str:
    """The tensor's sizes as 3x5x7."""
    return "x".join(map(str, dense.shape))


def _encode(part: Any) -> Any:
    if isinstance(part, Value):
        return part.state()
    return [_encode(each) for each in part] if isinstance(part, tuple) else part


def _decode(part: Any) -> Any:
    if isinstance(part, dict):
        return restore(part)
    return tuple(_decode(each) for each in part) if isinstance(part, list) else part


def _parted(each: Any, part: Part) -> Any:
    if isinstance(each, tuple):
        return tuple(_parted(one, part) for one in each)
    return each.within(part) if isinstance(each, Value) else each


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return mine.shape == theirs.shape and bool((mine == theirs).all())
    return bool(mine == theirs)
