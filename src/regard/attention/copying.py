"""Copying: attention weights over the source as probabilities of writing its tokens.

A pointer-generator (See et al. 2017, eq. 9) writes a token of its vocabulary with probability
p_gen, or copies a token of the source, each with its attention weight:

    P(w) = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_i

A source of three tokens, "the", "wug" and "the", with weights 0.5, 0.3 and 0.2 copies "the" (7)
with probability 0.7 and "wug" (9) with probability 0.3:

>>> import torch
>>> from regard.attention.copying import copy_probabilities
>>> weights, tokens = torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[7, 9, 7]])
>>> copied = copy_probabilities(weights, tokens, 10)
>>> round(copied[0, 0, 7].item(), 2), round(copied[0, 0, 9].item(), 2)
(0.7, 0.3)
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.inputs import Inputs
from regard.attention.mechanism import Mechanism, Rows
from regard.attention.normalizers import RowSum
from regard.attention.scores import Score
from regard.attention.terms import Terms
from regard.masks import Mask

__all__ = ["Copying", "copy_probabilities", "copy_probability_of"]

Weights = Float[Tensor, "batch query key"]


class Copying(Mechanism):
    """The weights of keys times the probability of copying, 1 - p_gen (See et al. 2017, eq. 8).

    p_gen = sigmoid(w_h . h* + w_s . q + b), where h* is the mean of the keys under the weights. A
    row sums to the probability of copying; with one-hot vectors of the source tokens as values the
    context is the copied part of the output distribution (eq. 9).
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        score: Score | None = None,
        *,
        mask: Mask | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(score, mask=mask, dropout=dropout)
        self.w_h = nn.Parameter(torch.empty(key_dim))
        self.w_s = nn.Parameter(torch.empty(query_dim))
        self.b = nn.Parameter(torch.zeros(()))
        nn.init.normal_(self.w_h, std=1.0 / math.sqrt(key_dim))
        nn.init.normal_(self.w_s, std=1.0 / math.sqrt(query_dim))

    @property
    def row_sum(self) -> RowSum:
        """At most one: the rest is the probability of writing a token of the vocabulary."""
        return "any" if self.normalizer.row_sum == "any" else "at most one"

    def weigh(self, inputs: Inputs, terms: Terms, rows: range) -> Rows:
        """The probability of copying each key, for the queries `rows`."""
        weights: Rows = self.normalizer(self.scores(inputs, terms, rows))
        query = inputs.query[:, :, rows.start : rows.stop]
        groups = inputs.query.shape[1] // inputs.key.shape[1]
        mean_key = weights @ inputs.key.repeat_interleave(groups, dim=1)
        gate = mean_key @ self.w_h + query @ self.w_s + self.b
        return weights * torch.sigmoid(-gate)[..., None]

    def mix(self, inputs: Inputs, terms: Terms, rows: range) -> Float[Tensor, "batch head row dim"]:
        """The context of the queries `rows`."""
        weights = F.dropout(self.weigh(inputs, terms, rows), self.dropout, self.training)
        groups = inputs.query.shape[1] // inputs.value.shape[1]
        return weights @ inputs.value.repeat_interleave(groups, dim=1)

    def factors(self, inputs: Inputs) -> None:
        """None: with a gate after the softmax the fused kernel cannot be used."""
        return


def copy_probabilities(
    weights: Weights, tokens: Int[Tensor, "batch key"], vocab: int
) -> Float[Tensor, "batch query vocab"]:
    """The probability of copying each token of the vocabulary: the weights of its places, added."""
    copied = weights.new_zeros(*weights.shape[:2], vocab)
    return copied.scatter_add(2, tokens[:, None].expand_as(weights), weights)


def copy_probability_of(
    labels: Int[Tensor, "batch query"], weights: Weights, tokens: Int[Tensor, "batch key"]
) -> Float[Tensor, "batch query"]:
    """The probability of copying the token that each query should give, 0 if the source lacks it.

    As `copy_probabilities` would give it, but without a number for every token of the vocabulary.
    """
    return (weights * (tokens[:, None] == labels[:, :, None])).sum(dim=-1)
