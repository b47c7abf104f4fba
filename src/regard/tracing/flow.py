"""Where a tensor came from, written on the tensor itself: its stream, and whether it is weights.

A stream begins where tokens or pictures are embedded and follows the first operand: what is added
to the stream, or looked at by it, does not change whose it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_MARK = "_regard_mark"


Streams = tuple[str | None, str | None]  # of queries and keys


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights that a softmax made by hand, waiting for the values that they mix."""

    weights: Tensor
    scores: Tensor
    streams: Streams


@dataclass(frozen=True, eq=False)
class Mark:
    """What is known of a tensor: `product` holds the streams of the two that it is a product of."""

    stream: str | None = None
    product: Streams | None = None
    weighing: Weighing | None = None


UNKNOWN = Mark()

BEGINNINGS = {F.embedding, torch.conv1d, torch.conv2d, torch.conv3d}
PRODUCTS = {
    torch.matmul,
    torch.bmm,
    torch.baddbmm,
    torch.einsum,
    torch.Tensor.matmul,
    torch.Tensor.bmm,
    torch.Tensor.baddbmm,
    torch.Tensor.__matmul__,
}
SOFTMAXES = {F.softmax, torch.softmax, torch.Tensor.softmax}
# what may happen to scores on their way to the softmax, and to weights on their way to the values
PASSING = {
    "__add__", "__div__", "__getitem__", "__iadd__", "__imul__", "__itruediv__", "__mul__",
    "__radd__", "__rmul__", "__rsub__", "__sub__", "__truediv__", "add", "add_", "bfloat16", "cat",
    "clamp", "contiguous", "div", "div_", "double", "dropout", "expand", "flatten", "float",
    "half", "masked_fill", "masked_fill_", "mul", "mul_", "permute", "reshape", "squeeze", "sub",
    "tanh", "to", "transpose", "type", "type_as", "unflatten", "unsqueeze", "view", "where",
}  # fmt: skip


def mark_of(tensor: Any) -> Mark:
    """What is known of a tensor; nothing for anything else."""
    return getattr(tensor, _MARK, UNKNOWN) if isinstance(tensor, Tensor) else UNKNOWN


def put(tensor: Tensor, mark: Mark) -> None:
    """Write what is known on the tensor."""
    setattr(tensor, _MARK, mark)


def tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    """The tensors among arguments, one level into lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Tensor))


def pass_on(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Write on the result what its operands say; runs after every function, so it is brief."""
    if not isinstance(out, Tensor | list | tuple):
        return
    marks = _marks(args)
    if kwargs:
        marks += _marks(kwargs.values())
    is_product = function in PRODUCTS
    if not marks and not is_product:
        return
    mark = Mark(next((each.stream for each in marks if each.stream is not None), None))
    if is_product:
        pair = [mark_of(each).stream for each in tensors(args)][-2:]
        mark = replace(mark, product=(pair[0], pair[-1])) if pair else mark
    elif getattr(function, "__name__", "") in PASSING:
        product = next((each.product for each in marks if each.product is not None), None)
        weighing = next((each.weighing for each in marks if each.weighing is not None), None)
        mark = Mark(mark.stream, product, weighing)
    for each in tensors((out,)):
        if each.dtype.is_floating_point:
            put(each, mark)


def _marks(values: Iterable[Any]) -> list[Mark]:
    """The marks on arguments, one level into lists and tuples."""
    found = []
    for value in values:
        if isinstance(value, list | tuple):
            found += [mark for each in value if (mark := getattr(each, _MARK, None)) is not None]
        elif (mark := getattr(value, _MARK, None)) is not None:
            found.append(mark)
    return found
