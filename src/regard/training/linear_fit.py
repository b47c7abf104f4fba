"""Fitting the linear part of a classifier: a support vector machine, by L-BFGS in seconds."""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.models.recurrent.linear_logits import LinearLogits
from regard.models.recurrent.pairs import PairEmbedding, count_pairs

__all__ = ["fit_linear_logits"]

_COST = 0.3  # C of a support vector machine: larger fits the training texts more closely
_STEPS = 60
_FEWEST = 2  # occurrences of a pair in a table of the linear part's own

Rows = Sequence[Sequence[int]]


def fit_linear_logits(
    linear: LinearLogits, pairs: PairEmbedding | None, texts: Rows, classes: Sequence[int]
) -> None:
    """Fit each class against the others, by |w|^2 / 2 + C sum max(0, 1 - s z)^2 (Fan et al. 2008).

    `texts` are ids; s is 1 for texts of the class and -1 for others, z the logit. The bias is not
    regularised. With a table of its own the pairs that occur twice are chosen, the most frequent
    first, and each feature is scaled by its inverse document frequency: most of them are rare,
    and a rare one says more about its text.
    """
    if linear.own_pairs:
        most = count_pairs(texts).most_common(linear.own_pairs)
        linear.set_pairs([pair for pair, count in most if count >= _FEWEST])
    features = _feature_matrix(texts, linear, pairs)
    size = features.shape[1]
    scale = _feature_scales(features) if linear.own_pairs else torch.ones(size)
    features = _multiply_columns(features, scale)
    transposed = features.t().coalesce()
    labels = len(linear.bias)
    signs = 2.0 * F.one_hot(torch.tensor(classes), labels) - 1.0
    if labels == 2:
        signs = signs[:, 1:]  # the weights of the first class are those of the second, negated
    weight = torch.zeros(size + 1, signs.shape[1], requires_grad=True)  # the last row is the bias

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
        both = torch.cat([-weight, weight], dim=1) if labels == 2 else weight
        tokens, known = (both[:-1] * scale[:, None]).tensor_split([linear.vocab])
        linear.tokens.weight.copy_(tokens)
        linear.bias.copy_(both[-1])
        table = linear.own.view(-1, labels) if linear.own_pairs else linear.pairs.weight
        table[: len(known)] = known


def _feature_matrix(
    texts: Rows, linear: LinearLogits, pairs: PairEmbedding | None
) -> Float[Tensor, "text feature"]:
    """How often each token and known pair is in each text, over the root of the text's length."""
    table = linear if linear.own_pairs else pairs
    known = {} if table is None else {pair: row for row, pair in enumerate(table.known_pairs(), 1)}
    places, columns, values = list[int](), list[int](), list[float]()
    for number, ids in enumerate(texts):
        own = [*ids, *(linear.vocab + known[pair] for pair in pairwise(ids) if pair in known)]
        columns += own
        places += [number] * len(own)
        values += [len(ids) ** -0.5] * len(own)
    size = linear.vocab + (linear.own_pairs + 1 if linear.own_pairs else len(linear.pairs.weight))
    matrix = torch.sparse_coo_tensor(
        torch.tensor([places, columns]),
        torch.tensor(values),
        (len(texts), size),
        check_invariants=True,
    )
    return matrix.coalesce()  # adds up a token that is there twice


def _feature_scales(features: Float[Tensor, "text feature"]) -> Float[Tensor, " feature"]:
    """The inverse document frequency of each feature, so that the mean squared norm becomes 1."""
    texts, size = features.shape
    columns = features.indices()[1]
    frequency = torch.bincount(columns, minlength=size).clamp_min(1)
    rarity = (texts / frequency).log() + 1
    norm = (features.values() * rarity[columns]).square().sum().div(texts).sqrt()
    return rarity / norm


def _multiply_columns(
    features: Float[Tensor, "text feature"], scale: Float[Tensor, " feature"]
) -> Float[Tensor, "text feature"]:
    """The features, each times its scale."""
    indices = features.indices()
    values = features.values() * scale[indices[1]]
    size = features.shape
    return torch.sparse_coo_tensor(indices, values, size, check_invariants=True).coalesce()
