"""Additive scores of one step over keys that were projected once for all steps."""

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


class KeyedAdditiveScore(Score):
    """v . tanh(W q + k), the keys being projected already, k = U h.

    They do not depend on the step and are made once (Bahdanau et al. 2015, appendix A.1.2).
    """

    def __init__(self, score: AdditiveScore) -> None:
        super().__init__()
        self.W, self.v = score.W, score.v

    def forward(
        self, query: Float[Tensor, "batch head query query_dim"], key: Key
    ) -> Float[Tensor, "batch head query key"]:
        """The network's answer for every pair."""
        query = F.linear(query, self.W)
        if query.shape[2] > 1 or torch.compiler.is_compiling():
            return additive_scores(query, key, self.v)
        scores: Tensor = _OneQuery.apply(query, key, self.v)  # type: ignore[no-untyped-call]
        return scores

    def check(self, query_dim: int, key_dim: int) -> None:
        """The widths are checked where keys are projected."""


class _OneQuery(torch.autograd.Function):
    """The scores of a single query; the backward pass makes tanh again instead of keeping it.

    What a decoder keeps for all its steps would be steps x keys x hidden.
    """

    @staticmethod
    def forward(ctx: Any, query: Query, key: Key, v: V) -> Float[Tensor, "batch head 1 key"]:
        ctx.save_for_backward(query, key, v)
        return (torch.add(query, key).tanh_() @ v)[:, :, None]

    @staticmethod
    def backward(ctx: Any, *gradients: Float[Tensor, "batch head 1 key"]) -> tuple[Query, Key, V]:
        query, key, v = ctx.saved_tensors
        gradient = gradients[0].flatten()
        bent = torch.add(query, key).tanh_()
        to_v = gradient @ bent.view(-1, len(v))
        spread = torch.outer(gradient, v).view_as(bent)
        to_key = torch.ops.aten.tanh_backward(spread, bent)
        return to_key.sum(dim=2, keepdim=True), to_key, to_v
