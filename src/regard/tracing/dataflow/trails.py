"""Where the numbers of a rearranged tensor came from: the same rearrangement, done with indices.

Local attention cuts its tokens into blocks and puts neighbouring blocks beside each other, or reads
a diagonal band by strides. No axis of such a tensor is the axis of its tokens any more, but the
functions that moved the numbers can be run again on a tensor of indices, and each index that comes
out says which token the number at its place belongs to.

Nothing is run again while the model runs. A `Trail` only remembers what was done since the tokens
lay on an axis, and is replayed where weights that were rearranged meet their values:

    x                       (1, 6, 8)      tokens 0 1 2 3 4 5 on axis -2
    x.view(1, 3, 2, 8)      (1, 3, 2, 8)   a trail of one step
    F.pad(..., blocks)      (1, 5, 2, 8)   two steps: - - | 0 1 | 2 3 | 4 5 | - -
    torch.cat of 3 slices   (1, 3, 6, 8)   columns - - 0 1 2 3 | 0 1 2 3 4 5 | 2 3 4 5 - -

An index is a `code`: example, token and feature of the number in one integer, -1 where the number
belongs to no token, as padding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Size, Tensor

# a code is the bits of (example, token, feature)
_FEATURE_BITS, _TOKEN_BITS = 30, 20
_FEATURE_MASK, _TOKEN_MASK = (1 << _FEATURE_BITS) - 1, (1 << _TOKEN_BITS) - 1
_LONGEST = 64  # steps; what was moved more often is not followed any further

Codes = Tensor  # int64
Step = Callable[[Sequence[Codes]], Codes]


class ReplayError(Exception):
    """A rearrangement that cannot be replayed, because tokens were mixed or the shapes differ."""


@dataclass(frozen=True, eq=False, slots=True)
class Trail:
    """What was done to a tensor since its tokens lay on an axis.

    `sources` are the shapes that the trails before it must have at this step; a source without a
    trail belongs to no token. A trail without sources is a beginning. `tokens` is the number of
    tokens at the beginning. `is_shuffled` says that indices have chosen or ordered the tokens,
    `is_padded` that padding was put beside them.
    """

    step: Step
    sources: tuple[tuple["Trail | None", Size], ...]
    tokens: int
    length: int = 0
    begins: "Beginning | None" = None
    is_shuffled: bool = False
    is_padded: bool = False

    def replay(self, batch: int, known: dict["Trail", Codes] | None = None) -> Codes:
        """The codes of the tensor's numbers; `batch` is the number of examples."""
        known = {} if known is None else known
        if self not in known:
            if self.begins is not None:
                known[self] = self.begins.codes(batch)
            else:
                known[self] = self.step([_read(*source, batch, known) for source in self.sources])
        return known[self]

    def pick(self, place: int) -> "Trail":
        """The trail of one of the results of a step that has several."""
        step = self.step
        return replace(self, step=lambda sources: step(sources)[place])


@dataclass(frozen=True, eq=False, slots=True)
class Beginning:
    """A tensor whose tokens lie on known axes; `others` are axes that hold no features."""

    shape: Size
    axes: tuple[int, ...]
    count: int = 0  # of tokens of one example, where the axis holds all examples
    others: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """How many tokens an example has."""
        return self.count or prod(self.shape[axis] for axis in self.axes)

    def codes(self, batch: int) -> Codes:
        """The code of each number."""
        token, feature = torch.zeros((), dtype=torch.long), torch.zeros((), dtype=torch.long)
        example = torch.zeros((), dtype=torch.long)
        lead = None if self.count or batch < 2 else self._batch_axis(batch)
        for axis in range(-len(self.shape), 0):
            size = self.shape[axis]
            place = torch.arange(size).view(-1, *(1,) * (-axis - 1))
            if axis in self.axes:
                token = token * size + place
            elif axis == lead:
                example, feature = place // (size // batch), place % (size // batch)
            elif axis not in self.others:
                feature = feature * size + place
        if self.count:
            example, token = token // self.count, token % self.count
        return ((((example << _TOKEN_BITS) + token) << _FEATURE_BITS) + feature).expand(self.shape)

    def _batch_axis(self, batch: int) -> int:
        """The axis of the examples: the first one that is no axis of tokens."""
        for axis in range(-len(self.shape), 0):
            if axis not in self.axes and axis not in self.others:
                if self.shape[axis] % batch:
                    break
                return axis
        raise ReplayError


def _read(trail: Trail | None, shape: Size, batch: int, known: dict[Trail, Codes]) -> Codes:
    """The codes of a source with the shape that it had at a step."""
    if trail is None:
        return torch.full((1,) * len(shape), -1).expand(shape)
    return fit_codes(trail.replay(batch, known), shape)


def fit_codes(codes: Codes, shape: Size) -> Codes:
    """Codes of a tensor after functions that moved no token: broadcast, or a map of features."""
    if codes.shape == shape:
        return codes
    padded = (1,) * (len(shape) - codes.dim()) + tuple(codes.shape)
    if len(padded) != len(shape):
        raise ReplayError
    if all(own in (1, size) for own, size in zip(padded, shape, strict=True)):
        return codes.expand(shape)
    changed = [axis for axis in range(-len(shape), 0) if padded[axis] != shape[axis]]
    if len(changed) != 1:
        raise ReplayError
    (axis,) = changed
    tokens, features = first_of(codes.reshape(padded), (axis,))
    places = torch.arange(shape[axis]).view(-1, *(1,) * (-axis - 1))
    return join_codes(tokens, features * shape[axis] + places)


def join_codes(tokens: Tensor, features: Tensor) -> Codes:
    """The codes of tokens, with their examples, and features."""
    return torch.where(tokens < 0, -1, (tokens << _FEATURE_BITS) + features)


def first_of(codes: Codes, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The token, with its example, of all numbers on these axes, and their first feature."""
    tokens = codes >> _FEATURE_BITS
    if not axes:
        return tokens, codes & _FEATURE_MASK
    first = tokens.amin(axes, keepdim=True)
    if not torch.equal(first, tokens.amax(axes, keepdim=True)):
        raise ReplayError
    return first, (codes & _FEATURE_MASK).amin(axes, keepdim=True)


def split_tokens(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Example and token; -1 for no token."""
    return tokens >> _TOKEN_BITS, torch.where(tokens < 0, -1, tokens & _TOKEN_MASK)


def begin(beginning: Beginning) -> Trail:
    """A trail of no steps."""
    return Trail(_no_step, (), beginning.tokens, 0, beginning)


def _no_step(sources: Sequence[Codes]) -> Codes:
    raise ReplayError


def lengthen_trail(
    trails: Sequence[Trail | None], shapes: Sequence[Size], step: Step
) -> Trail | None:
    """A trail of one more step; None if it is too long, or begins nowhere or in two streams."""
    known = [trail for trail in trails if trail is not None]
    length = max((trail.length for trail in known), default=_LONGEST) + 1
    if length > _LONGEST or len({trail.tokens for trail in known}) > 1:
        return None
    shuffled = getattr(step, "shuffles", False) or any(trail.is_shuffled for trail in known)
    padded = getattr(step, "pads", False) or any(trail.is_padded for trail in known)
    sources = tuple(zip(trails, shapes, strict=True))
    return Trail(step, sources, known[0].tokens, length, None, shuffled, padded)
