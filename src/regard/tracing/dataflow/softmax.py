"""How scores become weights: softmax on any axis, exponents over their sum, and what meets them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.origins import (
    Exponents,
    Logarithms,
    Mark,
    Mixing,
    Pair,
    Side,
    Total,
    Weighing,
    changed,
    plain,
)

TIMES = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}
OVER = {"div", "div_", "divide", "true_divide", "true_divide_", "__truediv__", "__itruediv__"}
MINUS = {"sub", "sub_", "subtract", "__sub__", "__isub__"}


def weighed(mark: Mark, scores: Tensor, axis: int, weights: Tensor) -> Mark:
    """The mark of weights that were normalised over an axis.

    They are over keys if it is the axis of somebody's tokens; else it is one of features, unless
    the tokens of a product were rearranged.
    """
    pair = ordered(mark.met, axis)
    rearranged = pair is None and mark.met.is_product and mark.met.is_lost
    if pair is None:
        pair = Pair(mark.alone().side, Side(None, axis, "features"))
    rearranged = rearranged or _is_torn(pair, weights)
    # detached, so that the mark on the weights does not hold the weights themselves
    step = Weighing(weights.detach(), scores.detach(), pair, rearranged)
    return Mark(pair.left.stream, pair.left.axis, pair.left.form, pair, step)


def ordered(pair: Pair, axis: int) -> Pair | None:
    """Queries and keys, by the axis that is normalised; None if it is nobody's tokens'."""
    for each in (pair, pair.turned):
        keys = each.right
        learned = keys.form == "constant" and each.left.form != "constant"
        if keys.axis == axis and not learned:
            return each
    return None


def _is_torn(pair: Pair, weights: Tensor) -> bool:
    """Whether one stream met itself with tokens rearranged, otherwise than in windows of both."""
    left, right = pair.left, pair.right
    if not pair.is_product or left.stream is None or left.stream != right.stream:
        return False
    if left.whole and right.whole:
        return False
    if left.whole != right.whole or not left.axis or not right.axis:
        return True
    return weights.shape[left.axis] != weights.shape[right.axis]


def meet(first: Mark, second: Mark) -> Mark:
    """The mark of two together: the first stream's, and that they met where they are two."""
    if first is second or second.form == "constant":
        return first
    if first.form == "constant":
        return second
    if first.pair is not None or second.pair is not None:
        return _closer(first, second)
    if second.stream is None:
        return first
    if first.stream is None:
        return second
    if first.stream == second.stream and (first.axis == second.axis or not second.side.axis):
        return first
    # one vector of a stream is spread over the tokens of another
    whose = second if first.form == "state" and second.axis else first
    if first.stream == second.stream and not first.axis and first.form != "state":
        return second
    return Mark(whose.stream, whose.axis, whose.form, Pair(first.side, second.side))


def meet_all(marks: Iterable[Mark]) -> Mark | None:
    """The mark of several together."""
    found: Mark | None = None
    for mark in marks:
        found = mark if found is None else meet(found, mark)
    return found


def _closer(first: Mark, second: Mark) -> Mark:
    """Of two, of which at least one has met another, the one that is closer to being weights."""

    def nearness(mark: Mark) -> tuple[bool, bool, bool]:
        pair = mark.pair
        met = pair is not None
        return mark.step is not None, met and pair.is_product and not pair.is_lost, met  # type: ignore[union-attr]

    if nearness(second) <= nearness(first):
        return first
    if second.step is None and first.axis and not second.pair.is_product:  # type: ignore[union-attr]
        return replace(first, pair=second.pair)
    return second


def combine(name: str, sides: tuple[Any, Any], marks: tuple[Mark, Mark], result: Tensor) -> Mark:
    """The mark of two tensors taken together number by number."""
    first, second = marks
    for one, other, side in ((first, second, sides[0]), (second, first, sides[1])):
        if isinstance(one.step, Weighing):
            expanded = name in TIMES and result.shape != side.shape
            if expanded and other.stream is not None and other.step is None:
                return Mark(one.stream, one.axis, one.form, one.pair, Mixing(one.step, other))
            return changed(one, result)
        if isinstance(one.step, Exponents) and isinstance(other.step, Total):
            return _divided(one, one.step, other.step, result)
    if name in MINUS and isinstance(second.step, Total) and second.step.exponents is None:
        step = Logarithms(sides[0].detach(), second.step.axis)
        return Mark(first.stream, first.axis, first.form, first.met, step)
    return meet(first, second)


def _divided(mark: Mark, exponents: Exponents, total: Total, result: Tensor) -> Mark:
    """Exponents over their own sum are weights; over another's they stay what they are."""
    pair = ordered(mark.met, total.axis)
    if pair is None or total.exponents is not exponents:
        return mark
    step = Weighing(result.detach(), exponents.scores, pair, _is_torn(pair, result), True)
    return Mark(pair.left.stream, pair.left.axis, pair.left.form, pair, step)


def exponential(mark: Mark, scores: Tensor, result: Tensor) -> Mark:
    """The mark of exp(scores); of logarithms of weights, that of weights."""
    if isinstance(mark.step, Logarithms):
        return weighed(replace(mark, step=None), mark.step.scores, mark.step.axis, result)
    if mark.step is not None or not (mark.axis or mark.pair):
        return mark
    return Mark(mark.stream, mark.axis, mark.form, mark.met, Exponents(scores.detach()))


def logarithm(mark: Mark, scores: Tensor, axis: int) -> Mark:
    """The mark of log(softmax(scores))."""
    step = Logarithms(scores.detach(), axis)
    return Mark(mark.stream, mark.axis, mark.form, mark.met, step)


def summed(name: str, mark: Mark, axes: tuple[int, ...]) -> Mark | None:
    """The mark of a sum that normalises; None if it is any other."""
    step = mark.step
    if len(axes) != 1 or ordered(mark.met, axes[0]) is None:
        return None
    alone = plain(mark.stream)
    if name == "sum" and isinstance(step, Exponents):
        return Mark(alone.stream, None, mark.form, None, Total(axes[0], step))
    if name == "logsumexp" and step is None:
        return Mark(alone.stream, None, mark.form, None, Total(axes[0]))
    return None
