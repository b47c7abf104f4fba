"""Scores: how well a query matches a key, before normalising."""

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.additive import additive_scores
from regard.errors import InputError, ShapeError

Query = Float[Tensor, "batch head query query_dim"]
Key = Float[Tensor, "batch key_head key key_dim"]
Scores = Float[Tensor, "batch head query key"]
Factors = tuple[
    Float[Tensor, "batch head query dim"], Float[Tensor, "batch key_head key dim"], float
]


class Score(nn.Module, ABC):
    """A function of queries and keys that says how well each pair matches."""

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """The raw scores of every pair."""

    def check(self, query_dim: int, key_dim: int) -> None:
        """Raise a ShapeError unless queries and keys of these widths can be scored."""
        if query_dim != key_dim:
            raise ShapeError(
                f"{type(self).__name__} expected queries and keys of one width, got {query_dim} "
                f"and {key_dim}; GeneralScore and AdditiveScore take different widths"
            )


class InnerProductScore(Score):
    """A score that is scale times the inner product of a transformed query and key."""

    @abstractmethod
    def factors(self, query: Query, key: Key) -> Factors:
        """The transformed query and key, and the scale."""

    def forward(self, query: Query, key: Key) -> Scores:
        """The scale times every inner product."""
        query, key, scale = self.factors(query, key)
        return (scale * query) @ key.mT


class DotScore(InnerProductScore):
    """Score by the inner product, q . k (Luong et al. 2015, eq. 8, dot)."""

    def factors(self, query: Query, key: Key) -> Factors:
        """Query and key as they are, and a scale of one."""
        return query, key, 1.0


class ScaledDotScore(InnerProductScore):
    """Score by q . k / sqrt(d), d the width of one head (Vaswani et al. 2017, eq. 1)."""

    def factors(self, query: Query, key: Key) -> Factors:
        """Query and key as they are, and one over the root of their width."""
        return query, key, 1.0 / math.sqrt(query.shape[-1])


class CosineScore(InnerProductScore):
    """Score by the cosine of the angle, over a temperature (Graves et al. 2014, eq. 5 and 6).

    The cosine lies between -1 and 1, so that at temperature 1 no weight is more than e^2 times
    another; a low temperature sharpens.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise InputError(f"CosineScore expected a temperature above zero, got {temperature}")
        self.temperature = temperature

    def factors(self, query: Query, key: Key) -> Factors:
        """Query and key divided by their norms, and one over the temperature."""
        return F.normalize(query, dim=-1), F.normalize(key, dim=-1), 1.0 / self.temperature

    def extra_repr(self) -> str:
        """The temperature."""
        return f"temperature={self.temperature}"


class GeneralScore(InnerProductScore):
    """Score by a learned bilinear form, q W k (Luong et al. 2015, eq. 8, general)."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(query_dim, key_dim))
        nn.init.xavier_uniform_(self.W)

    def factors(self, query: Query, key: Key) -> Factors:
        """The query multiplied by W, so that it has the width of the keys."""
        return query @ self.W, key, 1.0

    def check(self, query_dim: int, key_dim: int) -> None:
        """Raise a ShapeError unless the widths are those of W."""
        _check_widths(self, (query_dim, key_dim), (self.W.shape[0], self.W.shape[1]))

    def extra_repr(self) -> str:
        """The widths."""
        return f"query_dim={self.W.shape[0]}, key_dim={self.W.shape[1]}"


class AdditiveScore(Score):
    """Score by a one-layer network, v . tanh(W q + U k) (Bahdanau et al. 2015, appendix A.1.2).

    Unlike the dot product it lets query and key differ in width. The hidden layer of all pairs, a
    tensor of query x key x hidden, is never held in memory.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden: int | None = None) -> None:
        super().__init__()
        hidden = key_dim if hidden is None else hidden
        self.W = nn.Parameter(torch.empty(hidden, query_dim))
        self.U = nn.Parameter(torch.empty(hidden, key_dim))
        self.v = nn.Parameter(torch.empty(hidden))
        nn.init.xavier_uniform_(self.W)
        nn.init.xavier_uniform_(self.U)
        nn.init.normal_(self.v, std=1.0 / math.sqrt(hidden))

    def forward(self, query: Query, key: Key) -> Scores:
        """The output of the network for every pair."""
        return additive_scores(F.linear(query, self.W), F.linear(key, self.U), self.v)

    def check(self, query_dim: int, key_dim: int) -> None:
        """Raise a ShapeError unless the widths are those of W and U."""
        _check_widths(self, (query_dim, key_dim), (self.W.shape[1], self.U.shape[1]))

    def extra_repr(self) -> str:
        """The widths."""
        hidden, query_dim = self.W.shape
        return f"query_dim={query_dim}, key_dim={self.U.shape[1]}, hidden={hidden}"


def _check_widths(score: Score, actual: tuple[int, int], expected: tuple[int, int]) -> None:
    """Raise a ShapeError unless queries and keys have the expected widths."""
    if actual != expected:
        raise ShapeError(
            f"this {type(score).__name__} expected queries of width {expected[0]} and keys of "
            f"width {expected[1]}, got {actual[0]} and {actual[1]}"
        )
