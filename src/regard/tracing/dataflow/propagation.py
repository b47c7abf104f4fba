"""How functions pass on what is known of their operands: one small rule for each kind of them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.tracing.dataflow.axis_moves import from_end
from regard.tracing.dataflow.axis_moves import without as left_by
from regard.tracing.dataflow.origins import (
    CONSTANT,
    LOST,
    UNKNOWN,
    Exponents,
    Mark,
    Total,
    Weighing,
    changed,
    plain,
    put,
    tensors,
)
from regard.tracing.dataflow.softmax import (
    combine,
    exponential,
    logarithm,
    summed,
    weighed,
)

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def marks(values: Iterable[Any]) -> list[Mark]:
    """The marks on arguments, one level into lists and tuples."""
    found = []
    for value in values:
        if isinstance(value, list | tuple):
            found += [mark for each in value if (mark := getattr(each, "_regard_mark", None))]
        elif (mark := getattr(value, "_regard_mark", None)) is not None:
            found.append(mark)
    return found


def first_mark(args: Args, kwargs: Kwargs) -> Mark | None:
    """The first mark among operands; that of parameters, if they are all there is."""
    found = marks(args) or marks(kwargs.values())
    if found:
        return found[0]
    operands = list(tensors((*args, *kwargs.values())))
    all_constant = operands and all(isinstance(each, nn.Parameter) for each in operands)
    return CONSTANT if all_constant else None


def put_all(result: Any, mark: Mark) -> None:
    """Write a mark on every tensor of a result."""
    if isinstance(result, Tensor):
        put(result, mark)
    else:
        for each in tensors((result,)):
            put(each, mark)


def carry(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """The same numbers: the same mark."""
    try:
        mark = args[0]._regard_mark
    except (AttributeError, IndexError):
        mark = first_mark(args, kwargs)
        if mark is None:
            return
    if result is not args[0]:
        put_all(result, mark)


def each(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Each number by itself: scores stay scores, and weights are changed."""
    try:
        mark = args[0]._regard_mark
    except (AttributeError, IndexError):
        mark = first_mark(args, kwargs)
        if mark is None:
            return
    if mark.step is not None:
        mark = _each_of(mark, result)
    put_all(result, mark)


def _each_of(mark: Mark, result: Any) -> Mark:
    if isinstance(mark.step, Weighing) and isinstance(result, Tensor):
        return changed(mark, result)
    return mark if isinstance(mark.step, Exponents | Total) else replace(mark, step=None)


def linear(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A linear map of the last axis: tokens on another one stay where they are."""
    try:
        mark = args[0]._regard_mark
    except (AttributeError, IndexError):
        mark = first_mark(args, kwargs)
        if mark is None:
            return
    if mark.axis == -1 or mark.pair is not None:
        mark = mark.mapped(_but_the_last)
        if isinstance(mark.step, Weighing):
            mark = changed(mark, result)
    put(result, mark)


def _but_the_last(axis: int) -> int:
    return LOST if axis == -1 else axis


def both(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Numbers of two, broadcast."""
    if name == "where" and len(args) > 1:
        args = args[1:]
    if len(args) < 2:
        args = (*args, *tensors(kwargs.values()), None)
    first: Mark | None = getattr(args[0], "_regard_mark", None)
    second: Mark | None = getattr(args[1], "_regard_mark", None)
    if first is None and second is None:
        mark = first_mark(args, {})
    elif first is not None and first.step is None and second in (first, None):
        mark = first
    else:
        mark = combine(name, (args[0], args[1]), (first or UNKNOWN, second or UNKNOWN), result)
    if mark is not None:
        put_all(result, mark)


def reduce(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Sums and the like over some axes."""
    source = args[0] if args else kwargs["input"]
    if len(args) > 1 and isinstance(args[1], Tensor):
        both(name, args, kwargs, result)
        return
    mark = getattr(source, "_regard_mark", None)
    if mark is None:
        return
    axes, keeps = reduced_axes(source, args, kwargs)
    found = None if mark.pair is None and mark.axis is None else summed(name, mark, axes)
    if found is None:
        gone = () if keeps else axes
        found = replace(mark, step=None).moved(
            lambda axis: None if axis in axes else left_by(gone, axis)
        )
    put_all(result, found)


def reduced_axes(source: Tensor, args: Args, kwargs: Kwargs) -> tuple[tuple[int, ...], bool]:
    """The axes over which a function reduces, and whether it leaves them there."""
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if isinstance(given, int):
        given = (given,)
    dims = given if isinstance(given, tuple | list) and given else range(source.dim())
    keeps = bool(kwargs.get("keepdim", args[2] if len(args) > 2 else False))
    return tuple(from_end(dim, source.dim()) for dim in dims), keeps


def softmax(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Weights, over somebody's tokens or over features."""
    scores = args[0] if args else kwargs["input"]
    mark = getattr(scores, "_regard_mark", None)
    axis = _normalised(scores, args, kwargs)
    if mark is not None and axis is not None:
        put(result, weighed(replace(mark, step=None), scores, axis, result))


def log_softmax(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Logarithms of weights."""
    scores = args[0] if args else kwargs["input"]
    mark = getattr(scores, "_regard_mark", None)
    axis = _normalised(scores, args, kwargs)
    if mark is not None and axis is not None:
        put(result, logarithm(mark, scores, axis))


def _normalised(scores: Tensor, args: Args, kwargs: Kwargs) -> int | None:
    given = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return None if given is None else from_end(int(given), scores.dim())


def exp(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Exponents of scores, or weights of which the logarithms were known."""
    scores = args[0] if args else kwargs["input"]
    mark = getattr(scores, "_regard_mark", None)
    if mark is not None:
        put(result, exponential(mark, scores, result))


def rearrange(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Numbers in other places: no axis is what it was."""
    mark = first_mark(args, kwargs)
    if mark is not None:
        put_floats(result, mark.moved(lambda axis: LOST))


def put_floats(result: Any, mark: Mark) -> None:
    """Write a mark on the tensors of a result that are no indices."""
    for each in tensors((result,)):
        if each.dtype.is_floating_point:
            put(each, mark)


def other(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A function of which nothing is known: an axis stays if the sizes do."""
    if not isinstance(result, Tensor | list | tuple):
        return
    mark = first_mark(args, kwargs)
    if mark is None:
        return
    source = next((each for each in tensors((*args, *kwargs.values()))), None)
    for each in tensors((result,)):
        if each.dtype.is_floating_point:
            alike = source is not None and each.shape == source.shape
            put(each, mark if alike and mark.pair is None else _unknown(mark))


def _unknown(mark: Mark) -> Mark:
    if mark.pair is not None and mark.pair.is_product:
        return mark.moved(lambda axis: LOST)
    return plain(mark.stream, None, mark.form)


def forget(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """A tensor that was laid out anew in its place: where its axes were is gone."""
    mark = first_mark(args, kwargs)
    if mark is not None:
        put_floats(result, _unknown(mark))


def pool(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Neighbours taken together: tokens stay on their axes, but fewer are another stream."""
    mark, source = first_mark(args, kwargs), next(iter(tensors(args)), None)
    if mark is None:
        return
    if mark.pair is not None:
        mark = _unknown(mark)
    elif mark.axis and mark.form == "tokens" and isinstance(result, Tensor) and source is not None:
        fewer = result.shape[mark.axis] != source.shape[mark.axis]
        mark = plain(f"{mark.stream} pooled", mark.axis) if fewer else mark
    put_floats(result, mark)


PASSING: dict[str, Callable[[str, Args, Kwargs, Any], None]] = {
    rule.__name__: rule
    for rule in (
        *(carry, each, linear, both, reduce, softmax, log_softmax, exp),
        *(rearrange, other, forget, pool),
    )
}
