"""Follows scores to weights: softmax on any axis, exp(s) / exp(s).sum(), exp(s - logsumexp(s)).

Also decides the origin of two tensors that are combined elementwise, where one may be weights.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.mixing import multiply_tokens
from regard.tracing.dataflow.origins import (
    POSITIONS,
    SIBLING,
    SINGLE,
    Exponentials,
    LogWeights,
    ManualWeights,
    Origin,
    PickedTokens,
    SoftmaxDenominator,
    StreamPair,
    StreamSide,
    WeightedByExponentials,
    WeightedValues,
    changed_weights,
    is_single,
    plain_stream,
    stream_origin,
)
from regard.tracing.dataflow.recurrence import join_picked, without_pick
from regard.tracing.readable import detach_untraced

TIMES = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}
PLUS = {"add", "add_", "__add__", "__radd__", "__iadd__"}
MINUS = {"sub", "sub_", "subtract", "__sub__", "__isub__"}


def softmax_origin(origin: Origin, scores: Tensor, axis: int, weights: Tensor) -> Origin:
    """The origin of scores that were normalised over an axis.

    The weights are over keys if it is the axis of some stream's tokens. Otherwise it is an axis of
    features, unless the scores are a product whose tokens were rearranged.
    """
    pair = order_pair(origin.pair_or_self, axis) or _grid_pair(origin, axis)
    rearranged = pair is None and origin.pair_or_self.is_product and origin.pair_or_self.is_lost
    if rearranged:
        pair = origin.pair_or_self
    elif pair is None:
        pair = StreamPair(origin.without_pair().side, StreamSide(None, axis, "features"))
    assert pair is not None
    rearranged = rearranged or _is_rearranged(pair, weights)
    # detached, so that the origin on the weights does not keep the weights themselves alive
    stage = ManualWeights(detach_untraced(weights), detach_untraced(scores), pair, rearranged)
    return Origin(pair.left.stream, pair.left.axis, pair.left.layout, pair, stage)


def _grid_pair(origin: Origin, axis: int) -> StreamPair | None:
    """The pair of scores of tokens on two axes that are normalised over one of them."""
    is_grid = origin.layout in ("grid", "picture") and origin.pair is None and origin.axis
    if not is_grid or axis not in (origin.axis, origin.axis - 1):  # type: ignore[operator]
        return None
    nobody = StreamSide(None, None, "constant")
    return StreamPair(nobody, StreamSide(origin.stream, axis, origin.layout, False))


def order_pair(pair: StreamPair, axis: int) -> StreamPair | None:
    """The pair with keys at the right: the side on the normalised axis; None if neither is."""
    for ordered in (pair, pair.swapped):
        keys = ordered.right
        # learned queries lie on an axis too, but weights over them are no attention over tokens
        learned = keys.layout == "constant" and ordered.left.layout != "constant"
        if keys.axis == axis and not learned:
            return ordered
    return None


def _is_rearranged(pair: StreamPair, weights: Tensor) -> bool:
    """True if a stream met itself with rearranged tokens, other than in windows of both sides."""
    left, right = pair.left, pair.right
    if pair.is_product and right.layout == "flat":
        return True  # normalised over the keys of several queries together
    if not pair.is_product or left.stream is None or left.stream != right.stream:
        return False
    if any(side.trail is not None and side.trail.is_shuffled for side in (left, right)):
        return True
    if left.whole and right.whole:
        return False
    if left.whole != right.whole or not left.axis or not right.axis:
        return True
    return weights.shape[left.axis] != weights.shape[right.axis]


def combined_origin(first: Origin, second: Origin) -> Origin:
    """The origin of two tensors together: the first stream's, with a pair if they are two."""
    if first is second or second.layout == "constant":
        return first
    if first.layout == "constant":
        return second
    if isinstance(first.stage, PickedTokens) or isinstance(second.stage, PickedTokens):
        joined = join_picked(first, second, multiplies=False)
        return joined or combined_origin(without_pick(first), without_pick(second))
    if first.pair is not None or second.pair is not None:
        return _closer_to_weights(first, second)
    if second.stream is None:
        return first
    if first.stream is None:
        return second
    return _combine_singles(first, second) or _combine_streams(first, second)


def _combine_streams(first: Origin, second: Origin) -> Origin:
    """The origin of two tensors of streams that have not met others."""
    assert first.stream is not None
    assert second.stream is not None
    if first.stream == second.stream and (first.axis == second.axis or not second.side.axis):
        return first
    if first.stream != second.stream and _are_siblings(first, second):
        stream = _join_siblings(first.stream, second.stream)
        return combined_origin(*(replace(origin, stream=stream) for origin in (first, second)))
    # one vector of a stream is broadcast over the tokens of another
    owner = second if first.layout == "state" and second.axis else first
    if first.stream == second.stream and not first.axis and first.layout != "state":
        return second
    pair = StreamPair(first.side, second.side)
    return Origin(owner.stream, owner.axis, owner.layout, pair)


def _combine_singles(first: Origin, second: Origin) -> Origin | None:
    """The origin of two tensors of one example, or of one and what is the same for all examples.

    As where positions are added to the tokens of one example. None for tensors of other kinds.
    """
    if not (is_single(first.stream) or is_single(second.stream)):
        return None
    plain = [replace(origin, stream=plain_stream(origin.stream)) for origin in (first, second)]
    if len({origin.stream.partition(SIBLING)[0] for origin in plain if origin.stream}) > 1:
        return None
    combined = _combine_streams(*plain)
    return replace(combined, stream=f"{combined.stream}{SINGLE}")


def _are_siblings(first: Origin, second: Origin) -> bool:
    """True if two embeddings of one module are combined token by token, as words and positions."""
    assert first.stream is not None
    assert second.stream is not None
    if first.stream.partition(SIBLING)[0] != second.stream.partition(SIBLING)[0]:
        return False
    return first.axis == second.axis or not (first.side.axis and second.side.axis)


def _join_siblings(one: str, other: str) -> str:
    """The stream of two embeddings of a module: positions belong to what they are added to."""
    if one.endswith(POSITIONS) != other.endswith(POSITIONS):
        return other if one.endswith(POSITIONS) else one
    return one.partition(SIBLING)[0]


def combine_all(origins: Iterable[Origin]) -> Origin | None:
    """The origin of several tensors together; None if there are none."""
    combined: Origin | None = None
    for origin in origins:
        combined = origin if combined is None else combined_origin(combined, origin)
    return combined


def _closer_to_weights(first: Origin, second: Origin) -> Origin:
    """Of two origins, at least one of them with a pair, the one that is further on to weights."""

    def progress(origin: Origin) -> tuple[bool, bool, bool]:
        pair = origin.pair
        paired = pair is not None
        is_scores = paired and pair.is_product and not pair.is_lost  # type: ignore[union-attr]
        return origin.stage is not None, is_scores, paired

    for own, other in ((first, second), (second, first)):
        # as where a mixture of experts, weighted by its router, is added to the residual stream
        spent = other.pair is not None and other.pair.is_lost and not other.pair.is_product
        if spent and own.pair is None and own.axis:
            return own
    if progress(second) <= progress(first):
        return first
    if second.stage is None and first.axis and not second.pair.is_product:  # type: ignore[union-attr]
        return replace(first, pair=second.pair)
    return second


def elementwise_origin(
    name: str, operands: tuple[Any, Any], origins: tuple[Origin, Origin], result: Tensor
) -> Origin:
    """The origin of two tensors combined number by number, by the function of this name."""
    first, second = origins
    for own, other, operand in (
        (first, second, operands[0]),
        (second, first, operands[1]),
    ):
        if isinstance(own.stage, ManualWeights) or _is_scores(own, other):
            broadcast = name in TIMES and result.shape != operand.shape
            if broadcast and other.stream is not None and other.stage is None:
                weights = own.stage if isinstance(own.stage, ManualWeights) else None
                values = operands[1] if operand is operands[0] else operands[0]
                weighted = WeightedValues(weights, other, detach_untraced(operand), values.shape)
                return Origin(own.stream, own.axis, own.layout, own.pair, weighted)
            if own.stage is not None:
                return changed_weights(own, result)
        if isinstance(other.stage, SoftmaxDenominator) and name in PLUS:
            return _added_to_sum(other, own)
        if isinstance(other.stage, SoftmaxDenominator):
            divided = divided_origin(own, other.stage, result)
            if divided is not None:
                return divided
    stage = second.stage
    if name in MINUS and isinstance(stage, SoftmaxDenominator) and stage.exponentials is None:
        log_weights = LogWeights(detach_untraced(operands[0]), stage.axis)
        return Origin(first.stream, first.axis, first.layout, first.pair_or_self, log_weights)
    times = _multiplied_origin(operands, origins, result) if name in TIMES else None
    return times or combined_origin(first, second)


def _is_scores(own: Origin, other: Origin) -> bool:
    """True if a tensor is scores of two streams, and the other one tokens that they may weight."""
    pair = own.pair
    if pair is None or own.stage is not None or not pair.is_product or pair.is_unnamed:
        return False
    return other.pair is None and bool(other.axis)


def _multiplied_origin(
    operands: tuple[Any, Any], origins: tuple[Origin, Origin], result: Tensor
) -> Origin | None:
    """The origin of two tensors multiplied number by number, where it is a special one."""
    first, second = origins
    if isinstance(first.stage, PickedTokens) or isinstance(second.stage, PickedTokens):
        return join_picked(first, second, multiplies=True)
    rotated = _rotated_origin(operands, origins, result)
    return rotated or multiply_tokens(operands, origins)


def _rotated_origin(
    operands: tuple[Any, Any], origins: tuple[Origin, Origin], result: Tensor
) -> Origin | None:
    """The origin of vectors of a stream times numbers of no stream; None for other operands.

    Rotary positions are such numbers: positions times frequencies look like scores, but neither
    factor belongs to a stream, and the result has the shape of the vectors.
    """
    first, second = origins
    for operand, own, other in ((operands[0], first, second), (operands[1], second, first)):
        unnamed = other.pair is not None and other.pair.is_unnamed and other.stage is None
        if unnamed and own.stream is not None and own.pair is None:
            return own if operand.shape == result.shape else None
    return None


def _added_to_sum(origin: Origin, other: Origin) -> Origin:
    """The origin of a sum of exponentials and another number, as of a sink without a value.

    The sum of two such sums normalises neither of them.
    """
    stage = other.stage
    if isinstance(stage, SoftmaxDenominator) and stage is not origin.stage:
        return replace(origin, stage=None)
    return origin


def divided_origin(
    origin: Origin, denominator: SoftmaxDenominator, result: Tensor
) -> Origin | None:
    """Exponentials over their own sum are weights; over another sum they stay what they are.

    Values that were summed by them before are a context now. None for anything else.
    """
    exponentials = origin.stage
    if isinstance(exponentials, WeightedByExponentials):
        if exponentials.exponentials is denominator.exponentials:
            exponentials.normalise()
        return stream_origin(origin.stream, origin.axis, origin.layout)
    if not isinstance(exponentials, Exponentials):
        return None
    pair = order_pair(origin.pair_or_self, denominator.axis)
    if pair is None or denominator.exponentials is not exponentials:
        return origin
    rearranged = _is_rearranged(pair, result)
    stage = ManualWeights(detach_untraced(result), exponentials.scores, pair, rearranged, True)
    return Origin(pair.left.stream, pair.left.axis, pair.left.layout, pair, stage)


def exp_origin(origin: Origin, scores: Tensor, result: Tensor) -> Origin:
    """The origin of exp(scores); of logarithms of weights, that of weights."""
    stage = origin.stage
    if isinstance(stage, LogWeights):
        return softmax_origin(replace(origin, stage=None), stage.scores, stage.axis, result)
    if stage is not None or not (origin.axis or origin.pair):
        return origin
    exponentials = Exponentials(detach_untraced(scores))
    return Origin(origin.stream, origin.axis, origin.layout, origin.pair_or_self, exponentials)


def log_softmax_origin(origin: Origin, scores: Tensor, axis: int) -> Origin:
    """The origin of log(softmax(scores))."""
    stage = LogWeights(detach_untraced(scores), axis)
    return Origin(origin.stream, origin.axis, origin.layout, origin.pair_or_self, stage)


def denominator_origin(name: str, origin: Origin, axes: tuple[int, ...]) -> Origin | None:
    """The origin of a sum over keys that may normalise a softmax; None for any other sum."""
    stage = origin.stage
    if len(axes) != 1 or order_pair(origin.pair_or_self, axes[0]) is None:
        return None
    stream = stream_origin(origin.stream).stream
    if name == "sum" and isinstance(stage, Exponentials):
        return Origin(stream, None, origin.layout, None, SoftmaxDenominator(axes[0], stage))
    if name == "logsumexp" and stage is None:
        return Origin(stream, None, origin.layout, None, SoftmaxDenominator(axes[0]))
    return None
