"""Passes trails on with origins: which tensors of a call have one, and when one begins."""

from collections.abc import Sequence

from torch import Size, Tensor

from regard.tracing.dataflow.origins import LOST, Origin, StreamPair, StreamSide
from regard.tracing.dataflow.trails import Beginning, Step, Trail, begin, lengthen_trail


def begin_trail(origin: Origin, shape: Size) -> Trail | None:
    """The beginning of a trail, where the tokens of a tensor of one stream still have an axis."""
    if not origin.axis or origin.stream is None or origin.layout in ("features", "steps"):
        return None
    grid = origin.layout in ("picture", "grid")
    axes = (origin.axis - 1, origin.axis) if grid else (origin.axis,)
    count = origin.count if origin.layout == "flat" else 0
    return begin(Beginning(shape, axes, count))


def _begin_side(side: StreamSide, other: StreamSide, shape: Size) -> Trail | None:
    if not side.axis or side.stream is None or side.layout in ("features", "steps"):
        return None
    count = side.tokens if side.layout == "flat" else 0
    return begin(Beginning(shape, (side.axis,), count, (other.axis,) if other.axis else ()))


def sides_with_trails(origin: Origin, shape: Size) -> tuple[Trail | None, ...]:
    """The trails of a tensor of this shape, begun where there is none: one, or one a side."""
    pair = origin.pair
    if pair is None:
        return (origin.trail or begin_trail(origin, shape),)
    left, right = pair.left, pair.right
    return (
        left.trail or _begin_side(left, right, shape),
        right.trail or _begin_side(right, left, shape),
    )


def is_followed(before: Origin, after: Origin, source: Tensor, result: Tensor) -> bool:
    """True if a function moved tokens off their axis, or moved a tensor that has a trail."""
    pair, moved = before.pair, after.pair
    if source.is_nested:
        return False
    if pair is None or moved is None:
        if before.trail is not None or (before.axis and after.axis == LOST):
            return True
        kept = before.axis and after.axis and after.layout == before.layout
        return bool(kept and source.shape[before.axis] != result.shape[after.axis])  # type: ignore[index]
    if pair.left.stream is None or pair.right.stream is None:
        return False  # one side has no trail, and weights are put in place only by both
    sides = ((pair.left, moved.left), (pair.right, moved.right))
    return any(one.trail or (one.axis and other.axis == LOST) for one, other in sides)


def add_step(
    after: Origin, sources: Sequence[tuple[Origin, Size]], step: Step, place: int | None = None
) -> Origin:
    """The origin with the trails of its sources, longer by a step; `place` picks of its results.

    A source of which nothing is known, as of zeros, belongs to no token.
    """
    known = [
        origin for origin, _ in sources if origin.stream is not None or origin.pair is not None
    ]
    if any((origin.pair is None) != (after.pair is None) for origin in known):
        return after
    if len({_streams(origin) for origin in known}) != 1:
        return after
    trails = [sides_with_trails(origin, shape) for origin, shape in sources]
    shapes = [shape for _, shape in sources]
    made = [
        lengthen_trail([trail[side if len(trail) > side else 0] for trail in trails], shapes, step)
        if all(
            trail[side] is not None
            for (origin, _), trail in zip(sources, trails, strict=True)
            if origin in known
        )
        else None
        for side in range(1 if after.pair is None else 2)
    ]
    if place is not None:
        made = [None if trail is None else trail.pick(place) for trail in made]
    if after.pair is None:
        return with_trail(after, made[0])
    left, right = (
        side._replace(trail=trail)
        for side, trail in zip((after.pair.left, after.pair.right), made, strict=True)
    )
    pair = StreamPair(left, right, after.pair.is_product)
    return Origin(after.stream, after.axis, after.layout, pair, after.stage, after.count)


def _streams(origin: Origin) -> tuple[str | None, ...]:
    pair = origin.pair
    return (origin.stream,) if pair is None else (pair.left.stream, pair.right.stream)


def with_trail(origin: Origin, trail: Trail | None) -> Origin:
    """The origin of one stream with a trail."""
    if trail is origin.trail:
        return origin
    return Origin(
        origin.stream, origin.axis, origin.layout, origin.pair, origin.stage, origin.count, trail
    )


def has_trail(origin: Origin) -> bool:
    """True if tokens of a tensor were rearranged in a way that is known."""
    pair = origin.pair
    if pair is None:
        return origin.trail is not None
    return pair.left.trail is not None or pair.right.trail is not None
