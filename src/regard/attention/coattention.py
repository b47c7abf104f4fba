"""Co-attention: two sequences attend to each other, by one score for both directions.

A reader attends from the words of a text to those of a question, and back. The score of a pair is
the same in both directions; only the axis that the softmax runs over differs:

    summary j   = sum_i softmax_i(e_ij) q_i           what the queries look like from key j
    context i   = sum_j softmax_j(e_ij) [v_j; summary j]
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.mechanism import Mechanism, weights
from regard.attention.normalizers import RowSum
from regard.attention.scores import Factors, InnerProductScore, Key, Query
from regard.masks import Mask, explicit

__all__ = ["CoAttention", "TrilinearScore"]


class TrilinearScore(InnerProductScore):
    """Score by a . q + b . k + c . (q * k), with learned a, b and c (Seo et al. 2017, eq. 1).

    It is an inner product: of [c * q + b; a . q] with [k; 1].
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query_weight, self.key_weight, self.product_weight = (
            nn.Parameter(torch.empty(dim)) for _ in range(3)
        )
        for weight in (self.query_weight, self.key_weight):
            nn.init.normal_(weight, std=dim**-0.5)
        nn.init.constant_(self.product_weight, dim**-0.5)

    def factors(self, query: Query, key: Key) -> Factors:
        """Query and key, each with one more number than their width."""
        own = (query @ self.query_weight)[..., None]
        mixed = query * self.product_weight + self.key_weight
        ones = torch.ones_like(key[..., :1])
        return torch.cat([mixed, own], dim=-1), torch.cat([key, ones], dim=-1), 1.0


class SwappedScore(InnerProductScore):
    """Another score with query and key exchanged: the transposed matrix of scores."""

    def __init__(self, score: InnerProductScore) -> None:
        super().__init__()
        self.score = score

    def factors(self, query: Query, key: Key) -> Factors:
        """The factors of the other score, exchanged."""
        first, second, scale = self.score.factors(key, query)
        return second, first, scale


class CoAttention(nn.Module):
    """Attention of queries to keys and of keys to queries (Seo et al. 2017; Xiong et al. 2017).

    The scores are those of Seo et al. (eq. 1). A context has two parts: the values that a query
    attends to, and what the queries look like from there (Xiong et al. 2017, eq. 2 and 3). The mask
    counts in both directions, so that a query that sees no key is seen by none.

    >>> import torch
    >>> from regard.attention import CoAttention
    >>> reader = CoAttention(dim=5)
    >>> reader(torch.randn(2, 11, 5), torch.randn(2, 3, 5)).shape
    torch.Size([2, 11, 10])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        score = TrilinearScore(dim)
        self.reading = Mechanism(score)
        self.summary = Mechanism(SwappedScore(score))

    @property
    def row_sum(self) -> RowSum:
        """What the weights of a query that sees a key sum to."""
        return self.reading.row_sum

    @property
    def one_hot(self) -> bool:
        """False: all keys that are seen get some weight."""
        return self.reading.one_hot

    def forward(
        self,
        query: Float[Tensor, "*batch query dim"],
        key: Float[Tensor, "*batch key dim"],
        value: Float[Tensor, "*batch key value_dim"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "*batch query both"]:
        """The context of each query; without `value`, the values are the keys."""
        value = key if value is None else value
        summary = self.summary(key, query, query, _transpose(mask, query, key))
        context: Tensor = self.reading(query, key, torch.cat([value, summary], dim=-1), mask)
        return context

    def weights(
        self,
        query: Float[Tensor, "*batch query dim"],
        key: Float[Tensor, "*batch key dim"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "*batch query key"]:
        """The attention weights of each query over the keys."""
        return weights(query, key, self.reading, mask)


def _transpose(mask: Mask | None, query: Tensor, key: Tensor) -> Mask | None:
    """The mask of the keys over the queries."""
    if mask is None:
        return None
    return explicit(mask.dense(query.shape[-2], key.shape[-2], device=query.device).mT)
