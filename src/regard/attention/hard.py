"""Hard attention: look at one key only; sampled while training, the most likely one otherwise."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.normalizers import Normalizer, Scores, Weights, softmax
from regard.errors import InputError

Values = Float[Tensor, "batch head key dim"]
Contexts = Float[Tensor, "batch head query dim"]


@dataclass(frozen=True)
class Choice:
    """What hard attention chose for each query.

    `index` is -1, and `log_probability` zero, where a query sees no key.
    """

    context: Float[Tensor, "*batch query dim"]
    index: Int[Tensor, "*batch query"]
    log_probability: Float[Tensor, "*batch query"]


class Hard(Normalizer):
    """p(a = i) = softmax(e)_i, and the context is the chosen key's value (Xu et al. 2015, 4.1).

    No gradient reaches the scores through the context: train with `choose`, whose log-probability
    REINFORCE needs (Williams 1992), or use StraightThrough.
    """

    def pick(
        self, scores: Scores, generator: torch.Generator | None = None
    ) -> Int[Tensor, "batch head query"]:
        """The key that each query looks at."""
        if self.training:
            scores = scores + gumbel_noise(scores, generator)
        return scores.argmax(dim=-1)

    def forward(self, scores: Scores) -> Weights:
        """One for the chosen key, zero for the others."""
        return one_hot(scores, self.pick(scores))

    def mix(self, scores: Scores, value: Values) -> Contexts:
        """The chosen values themselves, without a product."""
        return gather(scores, self.pick(scores), value)

    def choose(
        self, scores: Scores, value: Values, generator: torch.Generator | None = None
    ) -> Choice:
        """The choice with its log-probability, through which the scores can be trained."""
        index = self.pick(scores, generator)
        log = torch.log_softmax(scores.masked_fill(_empty(scores), 0.0), dim=-1)
        log = log.gather(-1, index[..., None]).masked_fill(_empty(scores), 0.0)
        index = index.masked_fill(_empty(scores)[..., 0], -1)
        return Choice(gather(scores, index.clamp_min(0), value), index, log[..., 0])


class StraightThrough(Hard):
    """Hard attention with the gradient of a soft one: straight-through Gumbel (Jang et al. 2017).

    While training, the weights are one-hot going forward, and those of
    softmax((e + noise) / temperature) going backward.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise InputError(
                f"StraightThrough expected a temperature above zero, got {temperature}"
            )
        self.temperature = temperature

    def forward(self, scores: Scores) -> Weights:
        """One-hot, but differentiable while training."""
        if not self.training:
            return super().forward(scores)
        scores = scores + gumbel_noise(scores)
        soft = softmax(scores / self.temperature)
        return one_hot(scores, scores.argmax(dim=-1)) + soft - soft.detach()

    def mix(self, scores: Scores, value: Values) -> Contexts:
        """The chosen values; while training as a product, so that the gradient reaches all."""
        return self(scores) @ value if self.training else super().mix(scores, value)

    def extra_repr(self) -> str:
        """The temperature."""
        return f"temperature={self.temperature}"


def gumbel_noise(scores: Scores, generator: torch.Generator | None = None) -> Scores:
    """Noise that makes the argmax of the noisy scores a sample from their softmax (Gumbel 1954)."""
    waiting = torch.empty_like(scores).exponential_(generator=generator)
    return -waiting.clamp_min(torch.finfo(scores.dtype).tiny).log()


def one_hot(scores: Scores, index: Int[Tensor, "batch head query"]) -> Weights:
    """One at the index of each row, zero elsewhere and in rows that see nothing."""
    weights = torch.zeros_like(scores).scatter(-1, index[..., None], 1.0)
    return weights.masked_fill(_empty(scores), 0.0)


def gather(scores: Scores, index: Int[Tensor, "batch head query"], value: Values) -> Contexts:
    """The value at the index of each row, zeros for rows that see nothing."""
    chosen = index[..., None].expand(-1, -1, -1, value.shape[-1])
    return value.gather(2, chosen).masked_fill(_empty(scores), 0.0)


def _empty(scores: Scores) -> Tensor:
    return (scores == -torch.inf).all(dim=-1, keepdim=True)
