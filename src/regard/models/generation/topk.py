"""The largest of many numbers in each row, and the sum of their exponentials."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.decode import topk

_BLOCK = 64
_FEW = 8  # rows
_MANY = 8  # times as many blocks as are kept, for the detour to be worth it


def largest(
    values: Float[Tensor, "row column"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """As `values.topk(count)`: the largest values of each row in falling order, and where.

    Natively in one pass. Else: the `count` largest lie in the `count` blocks whose largest are
    largest; one quick pass finds these, and only they are sorted.
    """
    if topk.supports_topk(values, count):
        return topk.native_topk(values, count)
    blocks = values.shape[1] // _BLOCK
    if blocks < _MANY * count:
        return values.topk(count, dim=1)
    head = values[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK))
    near = head.amax(dim=2).topk(count, dim=1).indices
    inside = head.gather(1, near[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    places = (near[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=near.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, values.shape[1], device=near.device)
    inside = torch.cat([inside, values[:, blocks * _BLOCK :]], dim=1)
    places = torch.cat([places, rest.expand(len(places), -1)], dim=1)
    top, where = inside.topk(count, dim=1)
    return top, places.gather(1, where)


def log_totals(values: Float[Tensor, "row column"]) -> Float[Tensor, " row"]:
    """The logarithm of the sum of each row's exponentials; no number if one of them is NaN.

    A few rows at a time, where it is not native: large pieces of memory are slow to come by.
    """
    if topk.supports_topk(values):
        return topk.native_logsumexp(values)
    if len(values) <= _FEW:
        return values.logsumexp(dim=1)
    return torch.cat([part.logsumexp(dim=1) for part in values.split(_FEW)])
