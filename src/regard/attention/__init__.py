"""Attention mechanisms as maths: tensors in, tensors out, nothing remembered."""

from regard.attention import tap as _tap  # noqa: F401  lets watchers see `attend`
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
    "attend",
    "catalog",
    "choose",
    "explain",
    "weights",
]
