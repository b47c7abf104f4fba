"""Loops over examples: the tokens of one example, taken out of the batch.

    for row in x:               row (7, 32) of x (2, 7, 32): of the stream "encoder of one example"
        q = row.view(7, 4, 8).transpose(0, 1)   (4, 7, 8): the first axis holds heads, no examples
    torch.stack(rows)           of the stream "encoder" again

Without the mark, four heads of one example would be taken for two heads of two examples. It is a
part of the name of the stream, because names go wherever tokens go; records have plain names.
"""

from dataclasses import replace

from torch import Tensor

from regard.tracing.dataflow.origins import (
    SINGLE,
    Origin,
    StreamNames,
    is_single,
    origin_of,
    plain_stream,
)
from regard.tracing.sites import examples_of_running_model

# functions that give a part of a batch
PARTS = frozenset(("__getitem__", "select", "unbind", "narrow", "split", "chunk"))


def is_example(source: Tensor, origin: Origin, part: Tensor) -> bool:
    """True if a part of a tensor is one example of the running model's batch.

    The first of four axes may hold queries, keys and values beside the batch.
    """
    examples = examples_of_running_model()
    if examples < 2 or source.dim() not in (3, 4) or len(source) != examples:
        return False
    if source.dim() == 4 and source.shape[1] == examples:
        return False
    is_first_axis = part.shape in (source.shape[1:], (1, *source.shape[1:]))
    tokens = origin.axis or 0
    return (
        is_first_axis and origin.pair is None and origin.stage is None and tokens != -source.dim()
    )


def single_origin(origin: Origin) -> Origin:
    """The origin of the tokens of one example, marked, so that no axis is taken for the batch."""
    if origin.stream is None or not origin.axis or is_single(origin.stream):
        return origin
    return replace(origin, stream=origin.stream + SINGLE)


def in_batch(origin: Origin) -> Origin:
    """The origin of the tokens of one example, put together with those of others."""
    if origin.pair is not None or not is_single(origin.stream):
        return origin
    return replace(origin, stream=plain_stream(origin.stream))


def streams_of(query: Tensor, key: Tensor) -> StreamNames:
    """The plain names of the streams of queries and keys."""
    return plain_stream(origin_of(query).stream), plain_stream(origin_of(key).stream)
