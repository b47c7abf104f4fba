"""What masks and biases share: areas and parts of a call, equality, and their plain-data form."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from regard.arguments import check_type
from regard.documents import check_record
from regard.errors import InputError, ShapeError, UnknownNameError

State = dict[str, Any]
V = TypeVar("V", bound="Value")

# Positions are int64. Up to this offset the difference of any two positions of a call fits too.
MAX_OFFSET = 2**62 - 1


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

    def __post_init__(self) -> None:
        check_offset(self.offset)

    def ahead(self) -> Int[Tensor, "query key"]:
        """The position of each key minus that of each query; negative for earlier keys."""
        first, last = self.offset + self.rows.start, self.offset + self.rows.stop
        query = torch.arange(first, last, device=self.device)
        key = torch.arange(self.columns.start, self.columns.stop, device=self.device)
        return key[None, :] - query[:, None]

    def of(self, dense: Tensor) -> Tensor:
        """The area of a tensor whose last axes are query and key; an axis of size one is kept."""
        if dense.shape[-2] > 1:
            dense = dense[..., self.rows.start : self.rows.stop, :]
        if dense.shape[-1] > 1:
            dense = dense[..., self.columns.start : self.columns.stop]
        return dense.to(device=self.device)


@dataclass(frozen=True)
class Part:
    """One example of a batched call: a range of its rows and columns, and some heads or all (None).

    Rows and columns of a part are counted from its own corner, so that the offset of the part is
    the call's offset plus `moved`.
    """

    example: int
    rows: range
    columns: range
    heads: tuple[int, ...] | None = None

    @property
    def moved(self) -> int:
        """What is added to the call's offset to get the part's offset."""
        return self.rows.start - self.columns.start

    def of(self, dense: Tensor) -> Tensor:
        """The part of a tensor with axes batch, head, query, key; an axis of size one is kept."""
        if dense.shape[0] > 1:
            dense = dense[self.example : self.example + 1]
        if dense.shape[1] > 1 and self.heads is not None:
            dense = dense[:, self.heads]
        return Area(self.rows, self.columns, device=dense.device).of(dense)


class Value:
    """A frozen dataclass that compares by content and can be written as plain data.

    Subclasses register themselves under their class name, which `state` writes and `restore` reads.
    """

    kinds: ClassVar[dict[str, type["Value"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kinds[cls.__name__] = cls

    def fields(self) -> dict[str, Any]:
        """The values of the dataclass fields by name."""
        return {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}  # type: ignore[arg-type]

    def state(self) -> State:
        """The value as a dictionary of JSON types and tensors, for `restore`."""
        return {"kind": type(self).__name__} | {k: _encode(v) for k, v in self.fields().items()}

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise a ShapeError unless this value and its parts fit a call of these sizes."""
        for part in self._parts():
            if isinstance(part, Value):
                part.check(batch, heads, queries, keys)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor of this value and of the masks and biases that it is made of."""
        inner: list[Tensor] = []
        for part in self._parts():
            if isinstance(part, Value):
                inner.extend(part.tensors)
            elif isinstance(part, Tensor):
                inner.append(part)
        return tuple(inner)

    def _parts(self) -> Iterator[Any]:
        """The values of the fields, and the items of those that are tuples."""
        for field in self.fields().values():
            yield from field if isinstance(field, tuple) else (field,)

    def within(self: V, part: Part) -> V:
        """This value restricted to a part of the call, for use with the part's offset."""
        return type(self)(**{name: _restrict(field, part) for name, field in self.fields().items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.fields(), other.fields()
        return all(_same(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(type(self))


def restore(state: State) -> Any:
    """The mask or bias from which `state()` made this dictionary.

    >>> from regard.masks import causal, restore
    >>> restore(causal().state())
    causal()
    """
    check_type(state, dict, "restore", "state")
    kind = state.get("kind", "")
    if not isinstance(kind, str) or kind not in Value.kinds:
        raise UnknownNameError("kind of mask or bias", str(kind), sorted(Value.kinds))
    parts = {name: _decode(part) for name, part in state.items() if name != "kind"}
    check_record(f"the {kind} of a mask or bias", parts, Value.kinds[kind])
    return Value.kinds[kind](**parts)


def check_offset(offset: int) -> None:
    """Raise an InputError unless positions counted from this offset fit into int64."""
    if not hasattr(offset, "__index__") or not -MAX_OFFSET <= offset <= MAX_OFFSET:
        raise InputError(
            f"expected an offset that is a whole number between -2**62 and 2**62, got {offset!r}; "
            "it is the position of the first query"
        )


def fit(name: str, sizes: torch.Size, axes: str, expected: tuple[int, ...]) -> None:
    """Raise a ShapeError unless the sizes are the expected ones; `axes` names them."""
    if tuple(sizes) != expected:
        call = " ".join(f"{axis}={size}" for axis, size in zip(axes.split(), expected, strict=True))
        raise ShapeError(f"{name} should have shape ({call}) as in this call, got {tuple(sizes)}")


def fit_broadcast(name: str, sizes: torch.Size, expected: tuple[int, int, int, int]) -> None:
    """Raise a ShapeError unless each size is one or the expected one."""
    if any(size not in (1, full) for size, full in zip(sizes, expected, strict=True)):
        axes = zip(("batch", "head", "query", "key"), expected, strict=True)
        call = " ".join(f"{axis}={size}" for axis, size in axes)
        raise ShapeError(f"{name} should broadcast to ({call}), got {tuple(sizes)}")


def four_axes(name: str, dense: Tensor) -> Tensor:
    """The tensor with axes batch, head, query, key, from (query key) or (batch query key)."""
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
    """The tensor's sizes as text, such as 3x5x7."""
    return "x".join(map(str, dense.shape))


def _encode(field: Any) -> Any:
    """A field as plain data: masks and biases inside it become dictionaries, tuples lists."""
    if isinstance(field, Value):
        return field.state()
    return [_encode(item) for item in field] if isinstance(field, tuple) else field


def _decode(field: Any) -> Any:
    """The field from which `_encode` made this plain data."""
    if isinstance(field, dict):
        return restore(field)
    return tuple(_decode(item) for item in field) if isinstance(field, list) else field


def _restrict(field: Any, part: Part) -> Any:
    """A field with the masks and biases inside it restricted to a part of the call."""
    if isinstance(field, tuple):
        return tuple(_restrict(item, part) for item in field)
    return field.within(part) if isinstance(field, Value) else field


def _same(mine: Any, theirs: Any) -> bool:
    """True if two fields are equal; tensors are compared by shape and elements."""
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return mine.shape == theirs.shape and bool((mine == theirs).all())
    return bool(mine == theirs)
