"""Additive attention scores for keys that are projected once for all steps of the decoder."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import AdditiveScore, Score
from regard.attention.additive import additive_scores

Query = Float[Tensor, "batch head 1 hidden"]
Key = Float[Tensor, "batch head key hidden"]
V = Float[Tensor, " hidden"]


class ProjectedKeysAdditiveScore(Score):
    """Scores v . tanh(W q + k) for keys k = U h that are already projected.

    The projected keys do not depend on the step, so that they are computed once for each source
    (Bahdanau et al. 2015, appendix A.1.2).
    """

    def __init__(self, score: AdditiveScore) -> None:
        super().__init__()
        self.W, self.v = score.W, score.v

    def forward(
        self, query: Float[Tensor, "batch head query query_dim"], key: Key
    ) -> Float[Tensor, "batch head query key"]:
        """The score of every pair of query and key."""
        query = F.linear(query, self.W)
        if query.shape[2] > 1 or torch.compiler.is_compiling():
            return additive_scores(query, key, self.v)
        scores: Tensor = _OneQuery.apply(query, key, self.v)  # type: ignore[no-untyped-call]
        return scores

    def check(self, query_dim: int, key_dim: int) -> None:
        """Nothing to check here: the widths were checked when the keys were projected."""


class _OneQuery(torch.autograd.Function):
    """The scores of a single query; the backward pass recomputes tanh instead of storing it.

    Stored for all steps of a decoder, the tanh would be a tensor of steps x keys x hidden.
    """

    @staticmethod
    def forward(ctx: Any, query: Query, key: Key, v: V) -> Float[Tensor, "batch head 1 key"]:
        ctx.save_for_backward(query, key, v)
        return (torch.add(query, key).tanh_() @ v)[:, :, None]

    @staticmethod
    def backward(ctx: Any, *gradients: Float[Tensor, "batch head 1 key"]) -> tuple[Query, Key, V]:
        query, key, v = ctx.saved_tensors
        gradient = gradients[0].flatten()
        tanh = torch.add(query, key).tanh_()
        grad_v = gradient @ tanh.view(-1, len(v))
        grad_tanh = torch.outer(gradient, v).view_as(tanh)
        grad_key = torch.ops.aten.tanh_backward(grad_tanh, tanh)
        return grad_key.sum(dim=2, keepdim=True), grad_key, grad_v
