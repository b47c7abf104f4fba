"""Ranges of one input that are streams of their own: the past and the future of a time series.

A model may take one tensor and give its first tokens to an encoder, the others to a decoder. Both
are slices of one stream, but no token is in both, so attention from one to the other is
cross-attention:

    x[:, :10]   of a tensor of 15 tokens    ->  the stream of x
    x[:, 10:]   none of these was in it     ->  another stream, "x 10:15"
    x[:, -1:]   of a tensor cut only here   ->  the stream of x
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard.tracing.dataflow.axis_moves import LayoutCall
from regard.tracing.dataflow.origins import Origin, stream_origin

# for each tensor that holds only inputs, the ranges of tokens that were taken of it
_cuts = WeakIdKeyDictionary()


def note_input(tensor: Tensor) -> None:
    """Note that a tensor holds an input as it came, or several of them concatenated."""
    _cuts[tensor] = []


def join_inputs(parts: Iterable[Any], result: Tensor) -> None:
    """Note that tensors were concatenated: inputs, if one of them is an input."""
    if any(part in _cuts for part in parts):
        note_input(result)


def begin_range(call: LayoutCall, source: Tensor, origin: Origin, moved: Origin) -> Origin:
    """The origin of a slice of an input: of its own stream if earlier slices had other tokens."""
    tokens = _range_of(source, call[1][1], origin.axis)
    if tokens is None or not moved.axis or source not in _cuts:
        return moved
    note_input(call[3])
    earlier = _cuts[source]
    is_other = any(not _overlap(tokens, other) for other in earlier)
    earlier.append(tokens)
    if not is_other:
        return moved
    stream = f"{origin.stream} {tokens.start}:{tokens.stop}"
    return stream_origin(stream, moved.axis, moved.layout)


def _range_of(source: Tensor, index: Any, axis: int | None) -> range | None:
    """The tokens of a slice; None if the index is another one, or takes all of them."""
    if not axis:
        return None
    place, size = source.dim() + axis, source.shape[axis]
    items = index[: place + 1] if isinstance(index, tuple) else (index,)
    if len(items) <= place or not all(isinstance(item, slice) for item in items):
        return None
    item = items[place]
    if item.step not in (None, 1):
        return None
    tokens = range(*item.indices(size))
    return tokens if 0 < len(tokens) < size else None


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
