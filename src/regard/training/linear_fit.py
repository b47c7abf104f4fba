"""Fitting the linear part of a classifier: a support vector machine, by L-BFGS in seconds."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from regard.models.recurrent.linear_logits import LinearLogits
from regard.models.recurrent.pairs import PairEmbedding

__all__ = ["fit_linear_logits"]

_COST = 0.3  # C of a support vector machine: larger fits the training texts more closely
_STEPS = 60

Rows = Sequence[Sequence[int]]


def fit_linear_logits(
    linear: LinearLogits, pairs: PairEmbedding | None, texts: Rows, classes: Sequence[int]
) -> None:
    """Fit each class against the others, by |w|^2 / 2 + C sum max(0, 1 - s z)^2 (Fan et al. 2008).

    `texts` are ids; s is 1 for texts of the class and -1 for others, z the logit. The bias is not
    regularised.
    """
    vocab = linear.tokens.num_embeddings
    size = vocab + linear.pairs.num_embeddings
    features = _feature_matrix(texts, vocab, pairs, size)
    transposed = features.t().coalesce()
    signs = -torch.ones(len(texts), len(linear.bias))
    signs[torch.arange(len(texts)), torch.tensor(classes)] = 1.0
    weight = torch.zeros(size + 1, len(linear.bias), requires_grad=True)  # the last row is the bias

    def evaluate() -> Tensor:
        """The value to minimise; its gradient is written to the weight."""
        with torch.no_grad():
            inner, bias = weight[:-1], weight[-1]
            short = (1 - signs * (features @ inner + bias)).clamp_min(0)
            slope = -2 * _COST * short * signs
            weight.grad = torch.cat([transposed @ slope + inner, slope.sum(0, keepdim=True)])
            return inner.square().sum() / 2 + _COST * short.square().sum()

    optimizer = torch.optim.LBFGS([weight], max_iter=_STEPS, line_search_fn="strong_wolfe")
    optimizer.step(evaluate)
    with torch.no_grad():
        linear.tokens.weight.copy_(weight[:vocab])
        linear.pairs.weight.copy_(weight[vocab:-1])
        linear.bias.copy_(weight[-1])


def _feature_matrix(
    texts: Rows, vocab: int, pairs: PairEmbedding | None, size: int
) -> Float[Tensor, "text feature"]:
    """How often each token and known pair is in each text, over the root of the text's length."""
    known = {} if pairs is None else {pair: row for row, pair in enumerate(pairs.known_pairs(), 1)}
    places, columns, values = list[int](), list[int](), list[float]()
    for number, ids in enumerate(texts):
        own = [*ids, *(vocab + known[pair] for pair in pairwise(ids) if pair in known)]
        columns += own
        places += [number] * len(own)
        values += [len(ids) ** -0.5] * len(own)
    indices = torch.tensor([places, columns])
    matrix = torch.sparse_coo_tensor(
        indices, torch.tensor(values), (len(texts), size), check_invariants=True
    )
    return matrix.coalesce()  # adds up a token that is there twice
