"""Products as marks see them: linear maps, two streams that meet, or weights that mix values."""

from regard.tracing.dataflow.origins import LOST, Mark, Pair, Side, Weighing, mark_of
from regard.tracing.dataflow.products import Factor, Product


def mixes(pair: Pair, values: Mark, summed: tuple[int, int]) -> bool:
    """Whether weights and values meet on the axis of the keys, and these are tokens."""
    keys = pair.right
    if keys.axis != summed[0] or isinstance(values.step, Weighing):
        return False
    if values.pair is not None and values.pair.is_product:
        return False
    if values.form == "constant":
        return pair.is_product and pair.left.stream is None and keys.stream is None
    if pair.is_product:
        return True
    if values.axis and values.axis != summed[1]:
        return False
    if keys.form == "features":  # nobody's tokens made them: those of the values must be told
        return values.axis == summed[1] and values.form in ("tokens", "given")
    return values.stream is not None


def multiplied(product: Product) -> Mark:
    """The mark of a product: with parameters a linear map, else two that meet."""
    left, right = mark_of(product.left), mark_of(product.right)
    own, others = product.sides
    if left.form != "constant" and right.form == "constant":
        return _mapped(left, own, others)
    if left.form == "constant" and right.form != "constant":
        return _mapped(right, others, own)
    pair = Pair(_side(left, own), _side(right, others), True)
    axis = pair.left.axis if left.axis else None
    return Mark(left.stream, axis, left.form, pair)


def _mapped(mark: Mark, own: Factor, others: Factor) -> Mark:
    """The mark of a stream times parameters, which may be queries that were learned."""
    moved = mark.mapped(own.moved)
    if moved.pair is not None or not moved.side.axis or others.own is None:
        return moved
    pair = Pair(Side(None, others.own, "constant"), moved.side)
    return Mark(moved.stream, moved.axis, moved.form, pair)


def _side(mark: Mark, factor: Factor) -> Side:
    """One side of scores: on the axis of its vectors, unless its tokens were summed over."""
    axis = factor.own
    if mark.axis and mark.axis in factor.summed:
        axis = LOST
    elif mark.axis and factor.axes.get(mark.axis) in factor.owns:
        axis = factor.axes[mark.axis]
    return Side(mark.stream, axis, mark.form, mark.side.whole)
