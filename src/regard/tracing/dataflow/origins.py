"""The origin of a tensor, written on the tensor itself: its stream, its token axis, its stage.

A stream begins where tokens or pictures are embedded, or with a floating-point input of the model.
A result belongs to the stream of its first operand: what is added to a stream, or attended to by
it, does not change whose tokens it holds.
"""

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.tracing.dataflow.trails import Trail
from regard.tracing.readable import detach_untraced

ATTRIBUTE = "_regard_origin"  # of a tensor; what reads it often writes the name out
SIBLING = " embedding "  # in the name of a stream: after the module, before one of its embeddings
POSITIONS = " of positions"  # ends the name of a stream of embedded positions
UNFOLDED = " unfolded"  # ends the name of a stream of places of a picture with their neighbours
SINGLE = " of one example"  # ends the name of a stream that a loop over examples goes through
_LEARNED = " query"  # ends the name of a stream of learned queries
_MANY = 1 << 8  # tracked tensors, besides those alive, after which freed ones are dropped

StreamNames = tuple[str | None, str | None]  # of queries and keys; None where it is not known
TokenLayout = Literal[
    "tokens",  # tokens on one axis
    "picture",  # patches on the last two axes, of the convolution that began the stream
    "grid",  # tokens on two axes again, later on the way
    "flat",  # tokens on one axis together with the batch
    "neighbours",  # copies of the neighbours of each token, as unfold makes them
    "steps",  # tokens on one axis that was made by stacking single vectors
    "state",  # one vector of the stream, without an axis of tokens
    "features",  # an axis that holds no tokens
    "constant",  # parameters
    "input",  # a floating-point input of the model, of which no axis is sure
]
LOST = 0  # an axis (counted from the end) whose tokens were rearranged; None means not known
AxisMove = Callable[[int], int | None]  # where an axis went; None if it is gone


class StreamSide(NamedTuple):
    """One of two tensors that met in a product or a sum.

    `axis` is where its tokens are in the result; `whole` is False if they lie on more than one
    axis, so that this one holds only some of them. `tokens` is how many there are where the
    layout is "flat", so that a reshape can part them again from the batch. `trail` tells how they
    were rearranged.
    """

    stream: str | None = None
    axis: int | None = None
    layout: TokenLayout = "tokens"
    whole: bool = True
    tokens: int = 0
    trail: Trail | None = None


class StreamPair(NamedTuple):
    """Two sides that met, in a product or in a sum; of weights, left is queries and right keys."""

    left: StreamSide
    right: StreamSide
    is_product: bool = False

    def move_axes(self, move: AxisMove) -> "StreamPair":
        """Both sides with their axes where a function put them."""
        return StreamPair(
            _move_side(self.left, move), _move_side(self.right, move), self.is_product
        )

    @property
    def swapped(self) -> "StreamPair":
        """The pair with its right side first."""
        return StreamPair(self.right, self.left, self.is_product)

    @property
    def is_unnamed(self) -> bool:
        """True if neither side is known to belong to a stream."""
        return self.left.stream is None and self.right.stream is None

    @property
    def is_lost(self) -> bool:
        """True if the tokens of neither side have an axis any more."""
        return not self.left.axis and not self.right.axis


@dataclass(frozen=True, eq=False)
class ManualWeights:
    """Weights of a hand-written softmax, before it is known which values they weight.

    `is_rearranged` says that their columns are not keys; `is_changed` that the numbers were
    changed after they were normalised, as by dropout or a second mask; `is_buffer` that they are
    in memory of the model's own, which a later layer may write to again. `site` is the module that
    multiplied them with values, where another one sums the products.
    """

    weights: Tensor
    scores: Tensor
    pair: StreamPair
    is_rearranged: bool = False
    is_changed: bool = False
    is_buffer: bool = False
    site: str | None = None

    @property
    def streams(self) -> StreamNames:
        """The streams of queries and keys."""
        return self.pair.left.stream, self.pair.right.stream


@dataclass(frozen=True, eq=False)
class Exponentials:
    """exp(scores): weights once they are divided by their sum."""

    scores: Tensor


@dataclass(frozen=True, eq=False)
class SoftmaxDenominator:
    """The sum of exponentials over an axis or, without `exponentials`, the logsumexp of scores."""

    axis: int
    exponentials: Exponentials | None = None


@dataclass(frozen=True, eq=False)
class LogWeights:
    """Logarithms of weights that were normalised over an axis."""

    scores: Tensor
    axis: int


@dataclass(frozen=True, eq=False)
class WeightedValues:
    """Weights times values, elementwise, before they are summed over keys.

    `factor` is the tensor of weights as it was multiplied; without `weights` it is scores, which
    are weights if the sum is over their keys. `shape` is that of the values.
    """

    weights: ManualWeights | None
    values: "Origin"
    factor: Tensor
    shape: torch.Size


@dataclass(frozen=True, eq=False)
class WeightedByExponentials:
    """Values summed by exponentials of scores: a context once they are divided by their sum.

    `normalise` is called when that happens.
    """

    exponentials: Exponentials
    normalise: Callable[[], None]


@dataclass(frozen=True, eq=False)
class TokenProducts:
    """Two tensors of the same tokens, multiplied and broadcast, before a sum over positions."""


@dataclass(frozen=True, eq=False)
class PickedTokens:
    """Vectors picked at positions of a stream, first to last of `span`, and combined since.

    `is_mixed` says that vectors of different positions were multiplied.
    """

    span: tuple[int, int]
    is_mixed: bool = False


Stage = (
    ManualWeights
    | Exponentials
    | SoftmaxDenominator
    | LogWeights
    | WeightedValues
    | WeightedByExponentials
    | TokenProducts
    | PickedTokens
)


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """What is known of a tensor: its stream, the axis and layout of its tokens, and its stage.

    `pair` is set where two sides met, as in scores. `stage` says how far the tensor is from scores
    to weights, or what was multiplied. `count` is how many tokens on a flat axis belong to one
    example. `trail` tells how tokens were rearranged since they lay on an axis. `is_shared` says
    that equal origins are this one object, which the rules are remembered by.
    """

    stream: str | None = None
    axis: int | None = None
    layout: TokenLayout = "tokens"
    pair: StreamPair | None = None
    stage: Stage | None = None
    count: int = 0
    trail: Trail | None = None
    is_shared: bool = field(default=False, init=False, repr=False)

    @property
    def weights_over_keys(self) -> ManualWeights | None:
        """The weights that the tensor is, if it is weights and their columns are keys."""
        stage = self.stage
        if not isinstance(stage, ManualWeights) or stage.is_rearranged:
            return None
        return None if stage.pair.right.layout == "features" else stage

    @property
    def is_parameters(self) -> bool:
        """True for numbers made of parameters alone; weights of learned queries are more."""
        return self.layout == "constant" and self.pair is None

    @property
    def side(self) -> StreamSide:
        """The tensor as one side of a pair."""
        # spread over two axes, or mixed with the batch: no single axis holds the tokens
        spread = self.layout in ("picture", "grid", "flat")
        axis = LOST if spread else self.axis
        return StreamSide(self.stream, axis, self.layout, axis != LOST, trail=self.trail)

    @property
    def pair_or_self(self) -> StreamPair:
        """The pair; for a tensor of one stream, nobody on the left and the stream on the right."""
        return self.pair or StreamPair(StreamSide(None, None, "constant"), self.side)

    def move_axes(self, move: AxisMove) -> "Origin":
        """The origin with its axes where a function put them; a picked token becomes a state."""
        side = _move_side(StreamSide(self.stream, self.axis, self.layout), move)
        pair = None if self.pair is None else self.pair.move_axes(move)
        # a sum of two streams without any token axis says nothing more about attention
        dropped = pair is None or (pair.is_lost and not pair.is_product and self.stage is None)
        if dropped:
            return stream_origin(side.stream, side.axis, side.layout, self.count)
        return Origin(side.stream, side.axis, side.layout, pair, self.stage, self.count)

    def after_linear(self, move: AxisMove) -> "Origin":
        """The origin after a linear map: no scores any more if the map mixed their tokens."""
        moved = self.move_axes(move)
        pair = moved.pair
        mixed = pair is not None and LOST in (pair.left.axis, pair.right.axis)
        return moved.without_pair() if mixed else moved

    def without_pair(self) -> "Origin":
        """The origin of the stream alone, forgetting what it met."""
        if self.pair is None:
            return self
        return stream_origin(self.stream, self.axis, self.layout, self.count)


def _move_side(side: StreamSide, move: AxisMove) -> StreamSide:
    if side.trail is not None:
        side = side._replace(trail=None)  # of the places before
    if not side.axis:
        return side
    axis = move(side.axis)
    if axis is None and side.layout != "features":
        return side._replace(axis=None, layout="state")
    return side._replace(axis=axis)


def learned_stream(site: str) -> str:
    """The name of the stream that begins with queries that are parameters."""
    return site + _LEARNED


def plain_stream(stream: str | None) -> str | None:
    """The name of a stream, without the mark of a single example of it."""
    return stream.replace(SINGLE, "") if stream else stream


def is_single(stream: str | None) -> bool:
    """True for the tokens of one example, taken out of the batch by a loop over examples."""
    return stream is not None and SINGLE in stream


def is_learned_stream(stream: str | None) -> bool:
    """True for a stream of learned queries, and for one that began with no input."""
    return stream is None or stream.endswith(_LEARNED)


UNKNOWN = Origin()
CONSTANT = Origin(layout="constant")


@functools.lru_cache(maxsize=4096)
def stream_origin(
    stream: str | None, axis: int | None = None, layout: TokenLayout = "tokens", count: int = 0
) -> Origin:
    """The origin of a tensor of one stream; equal ones are one object, quick to compare."""
    if stream is None and axis is None:
        return CONSTANT if layout == "constant" else UNKNOWN
    return mark_shared(Origin(stream, axis, layout, None, None, count))


def mark_shared(origin: Origin) -> Origin:
    """The origin, noted as the one object of all that are equal to it."""
    object.__setattr__(origin, "is_shared", True)
    return origin


def changed_weights(origin: Origin, weights: Tensor) -> Origin:
    """The origin of weights whose numbers were changed after they were normalised."""
    stage = origin.stage
    assert isinstance(stage, ManualWeights)
    assert origin.pair is not None
    stage = replace(stage, weights=detach_untraced(weights), pair=origin.pair, is_changed=True)
    return Origin(origin.stream, origin.axis, origin.layout, origin.pair, stage)


class TrackedTensors(threading.local):
    """The tensors of this thread that carry origins, so that all can be removed at the end."""

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Tensor]] = []
        self.alive = 0  # how many were alive when freed ones were dropped last
        self.readers = 0  # blocks that remember places in the list, which must not move then


_tracked = TrackedTensors()


def origin_of(tensor: Any) -> Origin:
    """The origin of a tensor; UNKNOWN for anything else, CONSTANT for parameters."""
    if isinstance(tensor, Tensor):
        origin: Origin | None = getattr(tensor, ATTRIBUTE, None)
        if origin is not None:
            return origin
        return CONSTANT if isinstance(tensor, torch.nn.Parameter) else UNKNOWN
    return UNKNOWN


def set_origin(tensor: Tensor, origin: Origin, _ref: Any = weakref.ref) -> None:
    """Write an origin on a tensor. This runs after every torch function, so it is kept brief."""
    tensor._regard_origin = origin  # type: ignore[attr-defined]
    _tracked.tensors.append(_ref(tensor))


def copy_origins(source: Tensor, target: Tensor) -> None:
    """Write the origins that all watchers have written on one tensor on another."""
    origins = {name: value for name, value in vars(source).items() if name.startswith(ATTRIBUTE)}
    if origins:
        vars(target).update(origins)
        _tracked.tensors.append(weakref.ref(target))


def tracked_tensors() -> TrackedTensors:
    """The tensors of this thread that carry origins: always the same list, changed in place."""
    return _tracked


@contextmanager
def share_tracked_tensors(tensors: list[weakref.ref[Tensor]]) -> Iterator[None]:
    """Let this thread add its tensors to the list of another one, while the block runs."""
    before, _tracked.tensors = _tracked.tensors, tensors
    _tracked.readers += 1
    try:
        yield
    finally:
        _tracked.tensors = before
        _tracked.readers -= 1


def forget_freed_tensors() -> None:
    """Drop freed tensors from the list of tracked ones, once there are many.

    Dropped early they are cheap: objects that live on make Python's garbage collector run.
    """
    tensors = _tracked.tensors
    if len(tensors) > _MANY + 2 * _tracked.alive and not _tracked.readers:
        tensors[:] = [reference for reference in tensors if reference() is not None]
        _tracked.alive = len(tensors)


def tensors_in(values: Iterable[Any]) -> Iterable[Tensor]:
    """The tensors among arguments, one level into lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Tensor))
