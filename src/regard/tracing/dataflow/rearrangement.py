"""How functions that lay tensors out, join them or run over steps pass on what is known."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.tracing.dataflow.axis_moves import LAYOUTS, Call, apart, from_end, together, unsqueezed
from regard.tracing.dataflow.origins import (
    CONSTANT,
    LOST,
    UNKNOWN,
    Mark,
    Weighing,
    mark_of,
    plain,
    put,
    tensors,
)
from regard.tracing.dataflow.propagation import Args, Kwargs, first_mark, put_all
from regard.tracing.dataflow.softmax import meet_all

_RESHAPES = ("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as")


def layout(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """The same numbers, or some of them, laid out anew."""
    source = args[0] if args else kwargs["input"]
    mark = getattr(source, "_regard_mark", None)
    if mark is None:
        if isinstance(source, nn.Parameter):
            put_all(result, CONSTANT)
        return
    if mark.axis is None and mark.pair is None:
        put_all(result, mark)
        return
    one = result if isinstance(result, Tensor) else result[0]
    call = (name, args, kwargs, one)
    moved = _laid_out(call, source, mark)
    if isinstance(moved.step, Weighing) and one.numel() != source.numel():
        moved = _cut(moved, call, source)
    put_all(result, moved)


def _laid_out(call: Call, source: Tensor, mark: Mark) -> Mark:
    rule = LAYOUTS[call[0]]
    if mark.pair is not None or not mark.axis:
        return mark.moved(lambda axis: rule(call, source, axis))
    if mark.form in ("picture", "grid"):
        return _grid_laid_out(call, source, mark)
    if mark.form == "flat" and call[0] in _RESHAPES:
        axis = apart(source, call[3], mark.axis, mark.count)
        if axis != LOST:
            return plain(mark.stream, axis)
    found = rule(call, source, mark.axis)
    if found:
        return plain(mark.stream, found, mark.form, mark.count)
    if found == LOST and call[0] in _RESHAPES and mark.form != "flat":
        return _reshaped(source, call[3], mark)
    return mark.moved(lambda _: found)


def _reshaped(source: Tensor, result: Tensor, mark: Mark) -> Mark:
    """Tokens that are spread over two axes, or joined with the axis before them."""
    assert mark.axis
    if (axis := apart(source, result, mark.axis)) != LOST:
        return plain(mark.stream, axis, "grid")
    if (axis := together(source, result, mark.axis)) != LOST:
        return plain(mark.stream, axis, "flat", source.shape[mark.axis])
    return plain(mark.stream, LOST)


def _grid_laid_out(call: Call, source: Tensor, mark: Mark) -> Mark:
    """Tokens on two axes become tokens on one where the two are joined."""
    assert mark.axis
    if call[0] in _RESHAPES:
        axis = together(source, call[3], mark.axis)
        if axis != LOST:
            return plain(mark.stream, axis)
    rule = LAYOUTS[call[0]]
    above, below = (rule(call, source, each) for each in (mark.axis - 1, mark.axis))
    if below and above == below - 1:
        return plain(mark.stream, below, mark.form)
    return plain(mark.stream, LOST)


def _cut(mark: Mark, call: Call, source: Tensor) -> Mark:
    """The mark of some of the weights: of those without a sink, or of one query."""
    step, (name, args, _, result) = mark.step, call
    assert isinstance(step, Weighing)
    assert mark.pair is not None
    if result.numel() > source.numel():
        return mark  # spread over heads that share them
    scores = step.scores
    if name == "__getitem__" and scores.shape == source.shape:
        scores = scores[args[1]]
    step = replace(step, weights=result.detach(), scores=scores, pair=mark.pair)
    return replace(mark, step=step)


def join(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Tensors side by side; scores are rearranged if some of them are."""
    parts = args[0] if args else kwargs.get("tensors", ())
    known = [mark_of(each) for each in parts if not _is_new(each)]
    found = next((mark for mark in known if _is_lost(mark)), None) or meet_all(known)
    if found is not None and found is not UNKNOWN:
        put(result, found)


def _is_lost(mark: Mark) -> bool:
    return mark.pair is not None and mark.pair.is_product and mark.pair.is_lost


def _is_new(tensor: Tensor) -> bool:
    """Whether nothing is known of a tensor: zeros, say, or a sink."""
    return mark_of(tensor) is UNKNOWN


def stack(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Tensors on a new axis: states of a stream become its tokens."""
    parts = args[0] if args else kwargs.get("tensors", ())
    found = meet_all(mark_of(each) for each in parts if not _is_new(each))
    if found is None or found is UNKNOWN or name != "stack":
        return
    dim: int = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if found.form == "state" and found.pair is None:
        put(result, plain(found.stream, from_end(dim, result.dim()), "steps"))
        return
    call: Call = (name, (parts[0], dim), {}, result)
    put(result, found.moved(lambda axis: unsqueezed(call, parts[0], axis)))


def assign(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """What is written into a tensor: scores are rearranged by it, states become steps."""
    target, value = args[0], next(reversed(list(tensors(args))), None)
    mark = getattr(value, "_regard_mark", None)
    if mark is None or value is target or not isinstance(target, Tensor):
        return
    if mark.pair is not None:
        put(target, mark.moved(lambda axis: LOST))
    elif getattr(target, "_regard_mark", UNKNOWN) is UNKNOWN:
        put(target, _written(name, args, target, mark))


def _written(name: str, args: Args, target: Tensor, mark: Mark) -> Mark:
    if name == "__setitem__" and mark.form == "state":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        numbers = [place for place, each in enumerate(index) if isinstance(each, int)]
        place = numbers[0] - target.dim() if numbers else None
        return plain(mark.stream, place, "steps" if numbers else "tokens")
    return mark


def pad_packed(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Sequences of several lengths, padded again: tokens are on an axis."""
    mark = first_mark(args, kwargs)
    if mark is not None:
        batch_first = bool(args[2] if len(args) > 2 else kwargs.get("batch_first", False))
        put(result[0], plain(mark.stream, -2 if batch_first else -3))


def recur(name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
    """What a recurrent network gives: a vector for each token, and its last state."""
    mark = first_mark(args, kwargs)
    if mark is None:
        return
    put_all(result, plain(mark.stream, None, "state"))
    if name.endswith("_cell"):
        return
    packed = isinstance(args[1], Tensor) and not args[1].dtype.is_floating_point
    batch_first = isinstance(args[-1], bool) and args[-1]
    axis = LOST if packed else -2 if batch_first or result[0].dim() == 2 else -3
    put(result[0], plain(mark.stream, axis))


ARRANGING: dict[str, Callable[[str, Args, Kwargs, Any], None]] = {
    rule.__name__: rule for rule in (layout, join, stack, assign, pad_packed, recur)
}
