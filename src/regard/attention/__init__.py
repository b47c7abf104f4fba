"""Attention mechanisms as pure functions of tensors, without any state between calls.

A mechanism has four exchangeable pieces: a score (how well a query matches a key), a normalizer
(scores to weights), a mask (which keys a query may see) and a bias (numbers added to the scores).
For one head, `attend` computes

    weights = normalizer(score(query, key) + bias, masked keys at -inf)
    context = weights @ value

Here is one query that matches the first of two keys. Its scores q . k / sqrt(2) are 0.71 and 0, so
the softmax gives weights 0.67 and 0.33, and the context is 0.67 x 2 + 0.33 x 4:

>>> import torch, regard
>>> query, key, value = torch.tensor([[1.0, 0.0]]), torch.eye(2), torch.tensor([[2.0], [4.0]])
>>> steps = regard.explain(query, key, value)
>>> [round(score, 2) for score in steps.similarities[0].tolist()]
[0.71, 0.0]
>>> [round(weight, 2) for weight in steps.weights[0].tolist()]
[0.67, 0.33]
>>> round(regard.attend(query, key, value).item(), 2)
2.66

What calls what: `attend` checks the inputs and gives them the axes batch, head, length, dim
(`inputs`), joins the mask and bias of the call to those of the mechanism (`terms`), and then takes
one of two ways. Softmax over inner products goes to torch's fused kernel (`fused`), in blocks of
queries (`sliced`) or as overlapping strips of keys (`banded`) where the mask lets keys be skipped.
Everything else is computed from explicit scores, a block of queries at a time (`mechanism`).

`heads` adds learned projections, `coattention` a second direction, `positions` encodes positions,
`hard` and `entmax` are normalizers, `additive` computes Bahdanau's score. `projection` and
`quantised` are the matrix products of decoding. `entries` is the catalog of mechanisms by name, and
`tap` describes a call of `attend` to whoever watches a model.
"""

from regard.attention import tap as _tap  # noqa: F401  registers the tap of `attend`
from regard.attention.coattention import CoAttention, TrilinearScore
from regard.attention.entries import catalog
from regard.attention.explanation import Explanation, explain
from regard.attention.hard import Choice, Hard, StraightThrough
from regard.attention.heads import KeyValueCache, MultiHeadAttention, SingleHeadAttention
from regard.attention.local import PredictiveLocal
from regard.attention.mechanism import Mechanism, attend, choose, weights
from regard.attention.normalizers import (
    AdaptiveEntmax,
    Entmax,
    Normalizer,
    Softmax,
    Sparsemax,
    TopK,
)
from regard.attention.positions import (
    LearnedPositions,
    PositionalEncoding,
    RelativePositions,
    Rotary,
)
from regard.attention.quantised import QuantisedLinear
from regard.attention.scores import (
    AdditiveScore,
    CosineScore,
    DotScore,
    GeneralScore,
    InnerProductScore,
    ScaledDotScore,
    Score,
)

__all__ = [
    "AdaptiveEntmax",
    "AdditiveScore",
    "Choice",
    "CoAttention",
    "CosineScore",
    "DotScore",
    "Entmax",
    "Explanation",
    "GeneralScore",
    "Hard",
    "InnerProductScore",
    "KeyValueCache",
    "LearnedPositions",
    "Mechanism",
    "MultiHeadAttention",
    "Normalizer",
    "PositionalEncoding",
    "PredictiveLocal",
    "QuantisedLinear",
    "RelativePositions",
    "Rotary",
    "ScaledDotScore",
    "Score",
    "SingleHeadAttention",
    "Softmax",
    "Sparsemax",
    "StraightThrough",
    "TopK",
    "TrilinearScore",
    "attend",
    "catalog",
    "choose",
    "explain",
    "weights",
]
