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
    """Write on the result what its operands say."""
    results = [each for each in tensors([out]) if each.is_floating_point()]
    if not results:
        return
    operands = list(tensors([*args, *kwargs.values()]))
    marks = [mark for mark in map(mark_of, operands) if mark is not UNKNOWN]
    stream = next((mark.stream for mark in marks if mark.stream is not None), None)
    mark = Mark(stream)
    if getattr(function, "__name__", "") in PASSING:
        product = next((each.product for each in marks if each.product is not None), None)
        weighing = next((each.weighing for each in marks if each.weighing is not None), None)
        mark = replace(mark, product=product, weighing=weighing)
    elif function in PRODUCTS and len(operands) >= 2:
        mark = replace(mark, product=(mark_of(operands[-2]).stream, mark_of(operands[-1]).stream))
    if mark.stream or mark.product or mark.weighing:
        for each in results:
            put(each, mark)
