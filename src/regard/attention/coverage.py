"""Coverage: additive attention that knows how much attention each key has already had.

Of a summary that repeats itself, the attention repeats itself too. The coverage of a key is the sum
of the weights that it was given by the queries before, and enters the score (See et al. 2017, eq.
10 and 11); the coverage loss penalises attending again to what is covered (eq. 12).
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.arguments import check_type
from regard.attention.inputs import Inputs
from regard.attention.mechanism import Mechanism, Rows
from regard.attention.scores import AdditiveScore
from regard.attention.terms import Terms
from regard.masks import Mask

__all__ = ["Coverage", "coverage_loss", "covered_keys"]


class Coverage(Mechanism):
    """Additive attention with coverage, e = v . tanh(W q + U k + w c) (See et al. 2017, eq. 11).

    c is the sum of the weights that the key was given by all queries before this one, so that the
    queries of a call, which are the steps of a decoder, are computed one after the other.
    """

    score: AdditiveScore

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        hidden: int | None = None,
        *,
        mask: Mask | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(AdditiveScore(query_dim, key_dim, hidden), mask=mask, dropout=dropout)
        width = len(self.score.v)
        self.w = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.w, std=1.0 / math.sqrt(width))

    def weigh(self, inputs: Inputs, terms: Terms, rows: range) -> Rows:
        """The weights of the queries `rows`, after those of all queries before them."""
        key = inputs.key.repeat_interleave(inputs.query.shape[1] // inputs.key.shape[1], dim=1)
        projected = F.linear(key, self.score.U)
        queries = F.linear(inputs.query[:, :, : rows.stop], self.score.W)
        coverage = queries.new_zeros(*queries.shape[:2], key.shape[2])
        weights: list[Rows] = []
        for row in range(rows.stop):
            keys = covered_keys(projected, coverage, self.w)
            scores = torch.tanh(queries[:, :, row, None] + keys) @ self.score.v
            area = terms.area(range(row, row + 1), key.shape[2], key.device)
            weights.append(self.normalizer(terms.apply(scores[:, :, None], area)))
            coverage = coverage + weights[-1][:, :, 0]
        return torch.cat(weights[rows.start :], dim=2)

    def mix(self, inputs: Inputs, terms: Terms, rows: range) -> Float[Tensor, "batch head row dim"]:
        """The context of the queries `rows`."""
        weights = F.dropout(self.weigh(inputs, terms, rows), self.dropout, self.training)
        groups = inputs.query.shape[1] // inputs.value.shape[1]
        return weights @ inputs.value.repeat_interleave(groups, dim=1)

    def in_blocks(self, inputs: Inputs, terms: Terms) -> Float[Tensor, "batch head query dim"]:
        """The context of all queries at once: a block would need the weights of those before."""
        return self.mix(inputs, terms, range(inputs.query.shape[2]))


def covered_keys(
    projected: Float[Tensor, "*batch key hidden"],
    coverage: Float[Tensor, "*batch key"],
    w: Float[Tensor, " hidden"],
) -> Float[Tensor, "*batch key hidden"]:
    """U k + w c: the projected keys with their coverage, to which a query is added (eq. 11)."""
    return torch.addcmul(projected, coverage[..., None], w)


def coverage_loss(
    weights: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch query"]:
    """The coverage loss of each query, sum_i min(a_i, c_i) (See et al. 2017, eq. 12).

    It is 0 for the first query, and at most 1, where a query repeats what was attended to.

    >>> import torch
    >>> from regard.attention.coverage import coverage_loss
    >>> weights = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    >>> coverage_loss(weights).tolist()
    [0.0, 0.5, 0.5]
    """
    check_type(weights, Tensor, "coverage_loss", "weights")
    before = weights.cumsum(dim=-2) - weights
    return torch.minimum(weights, before).sum(dim=-1)
