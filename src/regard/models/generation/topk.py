"""The largest values of each row of logits, and the logsumexp of each row, both fast on a CPU."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.decode import topk

_BLOCK = 64  # columns
_ROWS_AT_A_TIME = 8
_BLOCKS_PER_RESULT = 8  # with fewer blocks for each value that is kept, torch.topk is as fast


def largest_per_row(
    values: Float[Tensor, "row column"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The same as `values.topk(count)`: the largest values of each row in falling order, and where.

    The native kernel needs one pass. Without it, the columns are cut into blocks: the `count`
    largest values lie in the `count` blocks with the largest maxima, so one pass finds the maximum
    of each block and only these blocks are sorted.
    """
    if topk.supports_topk(values, count):
        return topk.native_topk(values, count)
    blocks = values.shape[1] // _BLOCK
    if blocks < _BLOCKS_PER_RESULT * count:
        return values.topk(count, dim=1)
    blocked = values[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK))
    best_blocks = blocked.amax(dim=2).topk(count, dim=1).indices
    inside = blocked.gather(1, best_blocks[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    offsets = torch.arange(_BLOCK, device=values.device)
    columns = (best_blocks[:, :, None] * _BLOCK + offsets).flatten(1)
    # The columns after the last whole block are always looked at.
    rest = torch.arange(blocks * _BLOCK, values.shape[1], device=values.device)
    inside = torch.cat([inside, values[:, blocks * _BLOCK :]], dim=1)
    columns = torch.cat([columns, rest.expand(len(columns), -1)], dim=1)
    largest, where = inside.topk(count, dim=1)
    return largest, columns.gather(1, where)


def logsumexp_per_row(values: Float[Tensor, "row column"]) -> Float[Tensor, " row"]:
    """log(sum(exp(row))) of each row; not finite if the row contains NaN or infinity."""
    if topk.supports_topk(values):
        return topk.native_logsumexp(values)
    if len(values) <= _ROWS_AT_A_TIME:
        return values.logsumexp(dim=1)
    # torch makes a temporary tensor of the size of its input, and large ones are slow to allocate.
    return torch.cat([part.logsumexp(dim=1) for part in values.split(_ROWS_AT_A_TIME)])
