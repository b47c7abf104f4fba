"""Weights that are a softmax of scaled dot products, computed for many heads at once.

Any weight of a map of `RecomputableWeights` can be computed by its `window`, rectangle by rectangle
and head by head. Where the scores are only scaled and masked (no bias, no soft cap) two shorter
ways exist: whole heads in one matrix product, and the factors of the logarithm,
log w_ij = q_i . k_j - lse_i.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.types.sources import RecomputableWeights


def is_plain_softmax(source: RecomputableWeights) -> bool:
    """True if the weights are a softmax of scaled products of queries and keys, maybe masked."""
    return source.scoring.bias is None and source.scoring.softcap is None


def softmax_weights(source: RecomputableWeights, heads: range) -> Float[Tensor, "head query key"]:
    """The weights of several heads in one matrix product, which is faster for small maps."""
    queries_per_key = len(source.query) // len(source.key)
    query = source.query[heads.start : heads.stop]
    key = source.key[[head // queries_per_key for head in heads]]
    lse = source.lse[heads.start : heads.stop, :, None].to(query.dtype)
    # exp(scale * q.k - logsumexp): the row sums are known already.
    weights = torch.baddbmm(-lse, query, key.mT, alpha=score_scale(source)).exp_()
    mask, (_, rows, columns) = source.scoring.mask, source.sizes
    if mask is None or _sees_everything(source):
        return weights
    visible = mask.dense(rows, columns, offset=source.scoring.offset, device=query.device)[0]
    visible = visible[heads.start : heads.stop] if len(visible) > 1 else visible
    return weights.masked_fill_(~visible, 0.0)


def score_scale(source: RecomputableWeights) -> float:
    """The factor of the scores: the scale of the call, else one over the root of the head width."""
    scale = source.scoring.scale
    return source.query.shape[-1] ** -0.5 if scale is None else scale


def log_weight_factors(
    source: RecomputableWeights, head: int
) -> tuple[Float[Tensor, "query dim"], Float[Tensor, "key dim"], Float[Tensor, " query"]]:
    """Queries, keys and row terms of a head: log w_ij = queries_i . keys_j + rows_i."""
    key = source.key[head * len(source.key) // len(source.query)]
    lse = source.lse[head].nan_to_num(neginf=0.0)  # minus infinity where a row sees no key
    # In float32, also where the model computes in fewer bits: these are logarithms.
    return source.query[head].float() * score_scale(source), key.float(), -lse.float()


def _sees_everything(source: RecomputableWeights) -> bool:
    """True if the mask lets every query see every key."""
    if source.scoring.mask is None:
        return True
    window, rest = source.scoring.mask.split()
    return rest is None and window.left is None and window.right is None
