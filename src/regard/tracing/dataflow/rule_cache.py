"""Remembers how rules move origins, because the layers and steps of a model repeat the same calls.

Where an axis goes depends on the function, the shapes and the arguments alone. Twelve layers and a
hundred decoding steps ask the same few questions, so the answers are kept:

    x.view(1, 7, 4, 8)    of (1, 7, 32), tokens on axis -2   ->  tokens on axis -3
    x.transpose(1, 2)     of (1, 7, 4, 8), tokens on -3      ->  tokens on axis -2
    torch.addmm(b, x, W)  of (7, 32), tokens on axis -2      ->  the same, or scores of learned W

Origins are the keys, so equal ones must be one object: `share` gives it, and marks it `is_shared`.
Only origins that say nothing of one tensor are shared. Those with a stage hold numbers, and those
with a trail the indices with which one tensor was rearranged; both are computed anew each time.
"""

import functools
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.axis_moves import RESHAPES, LayoutCall
from regard.tracing.dataflow.origins import Origin, mark_shared, stream_origin
from regard.tracing.dataflow.places import has_trail
from regard.tracing.dataflow.products import linear_map_origin, matmul_factors
from regard.tracing.dataflow.softmax import combined_origin

MOST_REMEMBERED = 4096  # after as many answers, all are forgotten
# functions whose moves depend on shapes and on integers among their arguments
REPEATED = frozenset(
    (*RESHAPES, "transpose", "swapaxes", "permute", "unsqueeze", "split", "chunk", "mT", "T")
)
# products whose last two arguments are the factors of torch.matmul
MATMULS = frozenset(("addmm", "matmul", "mm", "__matmul__"))

MoveKey = tuple[Any, ...]
_INTEGERS = frozenset((int,))
_shared: dict[tuple[Any, ...], Origin] = {}
_moves: dict[MoveKey, Origin] = {}

find_move = _moves.get  # the origin after a move that was remembered; None for any other


def share(origin: Origin) -> Origin:
    """The one object of all origins equal to this one; itself, unmarked, if it cannot be shared."""
    if origin.is_shared or origin.stage is not None or has_trail(origin):
        return origin
    if origin.pair is None:
        return stream_origin(origin.stream, origin.axis, origin.layout, origin.count)
    key = (origin.stream, origin.axis, origin.layout, origin.pair, origin.count)
    known = _shared.get(key)
    if known is None:
        if len(_shared) >= MOST_REMEMBERED:
            _shared.clear()
        known = _shared[key] = mark_shared(origin)
    return known


def move_key(call: LayoutCall, source: Tensor, origin: Origin) -> MoveKey | None:
    """By what a move of a shared origin is remembered; None if it cannot be."""
    name, args, kwargs, result = call
    if source.is_nested or result.is_nested:
        return None
    if name in RESHAPES:  # the two shapes say all
        return name, origin, source.shape, result.shape
    if not _INTEGERS.issuperset(map(type, args[1:])):
        return None
    if not kwargs:
        return name, origin, source.shape, result.shape, args[1:]
    if "input" in kwargs or not _INTEGERS.issuperset(map(type, kwargs.values())):
        return None
    return name, origin, source.shape, result.shape, args[1:], *kwargs.items()


def remember_move(key: MoveKey, moved: Origin) -> Origin:
    """Keep the origin after a move, if it can be shared, and return it."""
    moved = share(moved)
    if moved.is_shared:
        if len(_moves) >= MOST_REMEMBERED:
            _moves.clear()
        _moves[key] = moved
    return moved


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def product_with_parameters(origin: Origin, dims: tuple[int, int]) -> Origin:
    """The origin of a tensor times parameters, for a matmul of these numbers of axes."""
    own, parameters = matmul_factors(*dims)
    return share(linear_map_origin(origin, own, parameters))


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def combine_shared(first: Origin, second: Origin) -> Origin:
    """The origin of two tensors of shared origins together."""
    return share(combined_origin(first, second))


def joined_origin(parts: Any) -> Origin | None:
    """The shared origin that all of these tensors have; None if they have no such one."""
    origin: Origin | None = None
    for part in parts:
        own: Origin | None = getattr(part, "_regard_origin", None)
        if own is None or (own is not origin and origin is not None):
            return None
        origin = own
    return origin if origin is not None and origin.is_shared else None
