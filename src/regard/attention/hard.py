"""Hard attention: all the weight of a query goes to one key.

The key is sampled from the softmax of the scores while training, and is the one with the highest
score otherwise.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.normalizers import Normalizer, Scores, Weights, softmax
from regard.errors import InputError

Values = Float[Tensor, "batch head key dim"]
Contexts = Float[Tensor, "batch head query dim"]

_RUN = 64  # keys in a run of `best`


@dataclass(frozen=True)
class Choice:
    """The key that hard attention chose for each query, with its value and log-probability.

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

    one_hot = True

    def pick(self, scores: Scores, generator: torch.Generator | None = None) -> "Picked":
        """The chosen key of each query: sampled while training, otherwise the best."""
        if self.training:  # Gumbel-max: the argmax of noisy scores is a sample of their softmax
            scores = scores + gumbel_noise(scores, generator)
        return best(scores)

    def forward(self, scores: Scores) -> Weights:
        """One for the chosen key, zero for the others."""
        return self.pick(scores).one_hot(scores)

    def mix(self, scores: Scores, value: Values) -> Contexts:
        """The value of the chosen key, gathered instead of multiplied by one-hot weights."""
        return self.pick(scores).gather(value)

    def choose(
        self, scores: Scores, value: Values, generator: torch.Generator | None = None
    ) -> Choice:
        """The choice and its log-probability, through which gradients reach the scores."""
        picked = self.pick(scores, generator)
        blind = picked.blind[..., None]
        # a row of -inf alone would make the log-softmax, and its gradient, NaN
        log_probabilities = torch.log_softmax(scores.masked_fill(blind, 0.0), dim=-1)
        chosen = log_probabilities.gather(-1, picked.index[..., None]).masked_fill(blind, 0.0)
        index = picked.index.masked_fill(picked.blind, -1)
        return Choice(picked.gather(value), index, chosen[..., 0])


class StraightThrough(Hard):
    """Hard attention with the gradient of soft attention: straight-through Gumbel-softmax.

    While training, the forward pass uses one-hot weights and the backward pass the gradient of
    softmax((e + noise) / temperature) (Jang et al. 2017, section 2.2).
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise InputError(
                f"StraightThrough expected a temperature above zero, got {temperature}"
            )
        self.temperature = temperature

    def forward(self, scores: Scores) -> Weights:
        """One-hot weights, differentiable while training."""
        if not self.training:
            return super().forward(scores)
        scores = scores + gumbel_noise(scores)
        soft = softmax(scores / self.temperature)
        return best(scores).one_hot(scores) + soft - soft.detach()

    def mix(self, scores: Scores, value: Values) -> Contexts:
        """The chosen values; while training as a product, so that all weights get a gradient."""
        return self(scores) @ value if self.training else super().mix(scores, value)

    def extra_repr(self) -> str:
        """The temperature."""
        return f"temperature={self.temperature}"


def gumbel_noise(scores: Scores, generator: torch.Generator | None = None) -> Scores:
    """Noise that makes the argmax of the noisy scores a sample from their softmax (Gumbel 1954)."""
    # minus the logarithm of an exponential variable is Gumbel; the clamp keeps it finite at zero
    exponential = torch.empty_like(scores).exponential_(generator=generator)
    return -exponential.clamp_min(torch.finfo(scores.dtype).tiny).log()


@dataclass(frozen=True)
class Picked:
    """The picked key of each query; `blind` is True for queries that see no key."""

    index: Int[Tensor, "batch head query"]
    blind: Bool[Tensor, "batch head query"]

    def one_hot(self, scores: Scores) -> Weights:
        """One at the picked key of each row, zero elsewhere."""
        weights = torch.zeros_like(scores).scatter(-1, self.index[..., None], 1.0)
        return weights.masked_fill(self.blind[..., None], 0.0)

    def gather(self, value: Values) -> Contexts:
        """The value of the picked key of each row."""
        chosen = self.index[..., None].expand(-1, -1, -1, value.shape[-1])
        return value.gather(2, chosen).masked_fill(self.blind[..., None], 0.0)


def best(scores: Scores) -> Picked:
    """The key with the highest score in each row; of equal scores the first.

    torch computes a maximum much faster than an argmax, so the keys are cut into runs: the maxima
    of the runs tell which run holds the highest score, and the argmax is taken within that run.
    """
    scores = scores.detach()
    keys = scores.shape[-1]
    if keys < 2 * _RUN:
        highest = scores.max(dim=-1)
        return Picked(highest.indices, highest.values == -torch.inf)
    runs = [scores[..., : keys - keys % _RUN].unflatten(-1, (-1, _RUN)).amax(dim=-1)]
    if keys % _RUN:
        runs.append(scores[..., keys - keys % _RUN :].amax(dim=-1, keepdim=True))
    highest = torch.cat(runs, dim=-1).max(dim=-1)
    # the last run may be short; it is then extended to the left, where all scores are lower
    start = (highest.indices * _RUN).clamp_max(keys - _RUN)[..., None]
    run = scores.gather(-1, start + torch.arange(_RUN, device=scores.device))
    return Picked(start[..., 0] + run.argmax(dim=-1), highest.values == -torch.inf)
