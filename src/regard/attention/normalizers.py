"""Normalizers turn scores into weights; a hidden key, whose score is -inf, gets exactly zero."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.entmax import entmax, sparsemax
from regard.errors import InputError

Scores = Float[Tensor, "batch head query key"]
Weights = Float[Tensor, "batch head query key"]

RowSum = Literal["one", "at most one", "any"]


class Normalizer(nn.Module, ABC):
    """Turns the scores of a row into its weights; a row that sees no key becomes zeros.

    A subclass declares what its weights obey. The mechanism and the attention layer that contain
    it show the same two attributes, and the tests of the laws and `diagnose` read them.
    """

    row_sum: ClassVar[RowSum] = "one"
    """What the weights of a row that sees a key sum to."""
    one_hot: ClassVar[bool] = False
    """True if one key of each row gets all the weight."""

    @abstractmethod
    def forward(self, scores: Scores) -> Weights:
        """The weights of each row."""

    def mix(
        self, scores: Scores, value: Float[Tensor, "batch head key dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        """The context: the sum of the values, weighted."""
        weights: Weights = self(scores)
        return weights @ value


class Softmax(Normalizer):
    """Soft attention: exp(e_i) / sum_j exp(e_j) (Bahdanau et al. 2015, eq. 6)."""

    def forward(self, scores: Scores) -> Weights:
        """Every seen key gets some weight."""
        return softmax(scores)


class TopK(Normalizer):
    """Softmax over the k best keys of each row, zero for the others (Gupta et al. 2021)."""

    def __init__(self, k: int) -> None:
        super().__init__()
        if k < 1:
            raise InputError(f"TopK expected k of at least one key, got {k}")
        self.k = k

    def forward(self, scores: Scores) -> Weights:
        """At most k keys get weight."""
        best = scores.topk(min(self.k, scores.shape[-1]), dim=-1)
        weights = softmax(best.values)
        return torch.zeros_like(scores).scatter(-1, best.indices, weights)

    def extra_repr(self) -> str:
        """The number of keys that get weight."""
        return f"k={self.k}"


class Sparsemax(Normalizer):
    """The nearest point of the simplex to the scores (Martins & Astudillo 2016, eq. 1)."""

    def forward(self, scores: Scores) -> Weights:
        """Keys far below the best get exactly zero."""
        shifted, empty = _subtract_best(scores)
        return sparsemax(shifted).masked_fill(empty, 0.0).to(scores.dtype)


class Entmax(Normalizer):
    """alpha-entmax: softmax at alpha 1, sparsemax at alpha 2 (Peters et al. 2019, eq. 5)."""

    def __init__(self, alpha: float = 1.5) -> None:
        super().__init__()
        if not 1.0 <= alpha <= 2.0:
            raise InputError(
                f"Entmax expected alpha from 1 (softmax) to 2 (sparsemax), got {alpha}"
            )
        self.alpha = alpha

    def forward(self, scores: Scores) -> Weights:
        """The larger alpha, the fewer keys get weight."""
        if self.alpha == 1.0:
            return softmax(scores)
        shifted, empty = _subtract_best(scores)
        alpha = torch.tensor(self.alpha, dtype=shifted.dtype, device=scores.device)
        return entmax(shifted, alpha).masked_fill(empty, 0.0).to(scores.dtype)

    def extra_repr(self) -> str:
        """The alpha."""
        return f"alpha={self.alpha}"


class AdaptiveEntmax(Normalizer):
    """alpha-entmax whose alpha each head learns, 1 + sigmoid(a) (Correia et al. 2019, eq. 10)."""

    def __init__(self, heads: int = 1) -> None:
        super().__init__()
        if heads < 1:
            raise InputError(f"AdaptiveEntmax expected at least one head, got {heads}")
        self.a = nn.Parameter(torch.zeros(heads))

    @property
    def alpha(self) -> Float[Tensor, " head"]:
        """The alpha of each head, between 1 and 2."""
        return 1.0 + torch.sigmoid(self.a)

    def forward(self, scores: Scores) -> Weights:
        """Each head decides how sparse it is."""
        if scores.shape[1] != len(self.a):
            raise InputError(
                f"this AdaptiveEntmax has an alpha for each of {len(self.a)} heads, the call has "
                f"{scores.shape[1]}; build it with heads={scores.shape[1]}"
            )
        shifted, empty = _subtract_best(scores)
        alpha = self.alpha.to(shifted.dtype)[:, None, None]
        return entmax(shifted, alpha).masked_fill(empty, 0.0).to(scores.dtype)

    def extra_repr(self) -> str:
        """The number of heads."""
        return f"heads={len(self.a)}"


def softmax(scores: Float[Tensor, "*row key"]) -> Float[Tensor, "*row key"]:
    """The softmax of each row; a row of -inf alone gives zeros, and its gradients are zeros."""
    empty = scores.detach().amax(dim=-1, keepdim=True) == -torch.inf
    return torch.softmax(scores.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)


def _subtract_best(
    scores: Scores,
) -> tuple[Scores, Bool[Tensor, "batch head query 1"]]:
    """The scores minus the maximum of their row, in float32 at least, and which rows are empty."""
    scores = scores.float() if scores.element_size() < 4 else scores
    best = scores.detach().amax(dim=-1, keepdim=True)
    empty = best == -torch.inf
    return (scores - best).masked_fill(empty, 0.0), empty
