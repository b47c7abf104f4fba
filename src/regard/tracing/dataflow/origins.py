"""Where a tensor came from, written on the tensor itself: its stream, and whether it is weights.

A stream begins where tokens or pictures are embedded, or with what a model is given, and follows
the first operand: what is added to the stream, or looked at by it, does not change whose it is.
"""

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

_MARK = "_regard_mark"
_MANY = 1 << 14  # marked tensors after which those that are gone are forgotten

Streams = tuple[str | None, str | None]  # of queries and keys
# tokens on an axis; on two, of the picture that began, or again later; on one with the batch; on
# one that was stacked; one vector of a stream; features; parameters; what the model was given
Form = Literal[
    "tokens", "picture", "grid", "flat", "steps", "state", "features", "constant", "given"
]  # fmt: skip
LOST = 0  # an axis, counted from the end, whose tokens were rearranged; None is not known
Mover = Callable[[int], int | None]  # where an axis went; None if it is gone


class Side(NamedTuple):
    """One of two that met: its stream, the axis of its tokens, and whether these are all."""

    stream: str | None = None
    axis: int | None = None
    form: Form = "tokens"
    whole: bool = True


class Pair(NamedTuple):
    """Two that met, in a product or in a sum; of weights, first the queries and then the keys."""

    left: Side
    right: Side
    is_product: bool = False

    def moved(self, move: Mover) -> "Pair":
        """Both with their axes where a function put them."""
        return Pair(_moved_side(self.left, move), _moved_side(self.right, move), self.is_product)

    @property
    def turned(self) -> "Pair":
        """The same, right side first."""
        return Pair(self.right, self.left, self.is_product)

    @property
    def is_lost(self) -> bool:
        """Whether neither side's tokens have an axis any more."""
        return not self.left.axis and not self.right.axis


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights made by hand, waiting for the values that they mix; `pair` tells their axes.

    `is_rearranged` says that their columns are not keys, `is_changed` that something was done to
    them after they were normalised.
    """

    weights: Tensor
    scores: Tensor
    pair: Pair
    is_rearranged: bool = False
    is_changed: bool = False

    @property
    def streams(self) -> Streams:
        """Of queries and keys."""
        return self.pair.left.stream, self.pair.right.stream


@dataclass(frozen=True, eq=False)
class Exponents:
    """exp(scores): weights once they are divided by their sum."""

    scores: Tensor


@dataclass(frozen=True, eq=False)
class Total:
    """The sum of exponents over an axis; of scores, its logarithm."""

    axis: int
    exponents: Exponents | None = None


@dataclass(frozen=True, eq=False)
class Logarithms:
    """Logarithms of weights, normalised over an axis."""

    scores: Tensor
    axis: int


@dataclass(frozen=True, eq=False)
class Mixing:
    """Weights times values, before they are summed."""

    weighing: Weighing
    values: "Mark"


Step = Weighing | Exponents | Total | Logarithms | Mixing


@dataclass(frozen=True, eq=False, slots=True)
class Mark:
    """What is known of a tensor: its stream, where its tokens are, and how far it is to weights.

    `count` is how many of those on a flat axis are one example's.
    """

    stream: str | None = None
    axis: int | None = None
    form: Form = "tokens"
    pair: Pair | None = None
    step: Step | None = None
    count: int = 0

    @property
    def weighing(self) -> Weighing | None:
        """The weights that the tensor is, if they are over keys."""
        step = self.step
        if not isinstance(step, Weighing) or step.is_rearranged:
            return None
        return None if step.pair.right.form == "features" else step

    @property
    def side(self) -> Side:
        """The tensor as one of two that meet."""
        spread = self.form in ("picture", "grid", "flat")  # over two axes, or with the batch
        axis = LOST if spread else self.axis
        return Side(self.stream, axis, self.form, axis != LOST)

    @property
    def met(self) -> Pair:
        """Those that met in the tensor; of a stream alone, its tokens and nobody."""
        return self.pair or Pair(Side(None, None, "constant"), self.side)

    def moved(self, move: Mover) -> "Mark":
        """The mark with its axes where a function put them; a token picked out is a state."""
        side = _moved_side(Side(self.stream, self.axis, self.form), move)
        pair = None if self.pair is None else self.pair.moved(move)
        gone = pair is None or (pair.is_lost and not pair.is_product and self.step is None)
        if gone:
            return plain(side.stream, side.axis, side.form, self.count)
        return Mark(side.stream, side.axis, side.form, pair, self.step, self.count)

    def mapped(self, move: Mover) -> "Mark":
        """The mark after a linear map: scores are none any more where it went over tokens."""
        moved = self.moved(move)
        pair = moved.pair
        lost = pair is not None and LOST in (pair.left.axis, pair.right.axis)
        return moved.alone() if lost else moved

    def alone(self) -> "Mark":
        """The stream without what it met."""
        return self if self.pair is None else plain(self.stream, self.axis, self.form, self.count)


def _moved_side(side: Side, move: Mover) -> Side:
    if not side.axis:
        return side
    axis = move(side.axis)
    if axis is None and side.form != "features":
        return side._replace(axis=None, form="state")
    return side._replace(axis=axis)


UNKNOWN = Mark()
CONSTANT = Mark(form="constant")


@functools.lru_cache(maxsize=4096)
def plain(
    stream: str | None, axis: int | None = None, form: Form = "tokens", count: int = 0
) -> Mark:
    """The mark of a stream alone, one for all tensors of which it is true."""
    if stream is None and axis is None:
        return CONSTANT if form == "constant" else UNKNOWN
    return Mark(stream, axis, form, None, None, count)


PRODUCTS = {
    torch.matmul,
    torch.bmm,
    torch.mm,
    torch.baddbmm,
    torch.einsum,
    torch.Tensor.matmul,
    torch.Tensor.bmm,
    torch.Tensor.mm,
    torch.Tensor.baddbmm,
    torch.Tensor.__matmul__,
}


class _Marked(threading.local):
    """The tensors of this thread that carry marks, so that none is left behind."""

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Tensor]] = []
        self.watchers = 0


_marked = _Marked()


def mark_of(tensor: Any) -> Mark:
    """What is known of a tensor; nothing for anything else."""
    if isinstance(tensor, Tensor):
        mark: Mark | None = getattr(tensor, _MARK, None)
        if mark is not None:
            return mark
        return CONSTANT if isinstance(tensor, torch.nn.Parameter) else UNKNOWN
    return UNKNOWN


def put(tensor: Tensor, mark: Mark, _ref: Any = weakref.ref) -> None:
    """Write what is known on the tensor; runs after every function, so it is brief."""
    tensor._regard_mark = mark  # type: ignore[attr-defined]
    _marked.tensors.append(_ref(tensor))


def begin() -> None:
    """Say that marks are put from now on, until as many have said that they end."""
    _marked.watchers += 1


def tidy() -> None:
    """Forget tensors that are gone, once there are many."""
    if len(_marked.tensors) > _MANY:
        _marked.tensors = [each for each in _marked.tensors if each() is not None]


def end() -> None:
    """Take every mark off again, unless somebody else still watches in this thread."""
    _marked.watchers -= 1
    if _marked.watchers > 0:
        return
    marked, _marked.tensors = _marked.tensors, []
    for each in marked:
        tensor = each()
        if tensor is not None:
            vars(tensor).pop(_MARK, None)


def tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    """The tensors among arguments, one level into lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Tensor))


def changed(mark: Mark, weights: Tensor) -> Mark:
    """The mark of weights to which something was done."""
    step = mark.step
    assert isinstance(step, Weighing)
    assert mark.pair is not None
    step = replace(step, weights=weights.detach(), pair=mark.pair, is_changed=True)
    return Mark(mark.stream, mark.axis, mark.form, mark.pair, step)
