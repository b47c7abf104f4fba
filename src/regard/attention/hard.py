"""Hard attention: look at one key only; sampled while training, the most likely one otherwise."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
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

    one_hot = True

    def pick(self, scores: Scores, generator: torch.Generator | None = None) -> "Picked":
        """The key that each query looks at."""
        if self.training:
            scores = scores + gumbel_noise(scores, generator)
        return best(scores)

    def forward(self, scores: Scores) -> Weights:
        """One for the chosen key, zero for the others."""
        return self.pick(scores).one_hot(scores)

    def mix(self, scores: Scores, value: Values) -> Contexts:
        """The chosen values themselves, without a product."""
        return self.pick(scores).gather(value)

    def choose(
        self, scores: Scores, value: Values, generator: torch.Generator | None = None
    ) -> Choice:
        """The choice with its log-probability, through which the scores can be trained."""
        picked = self.pick(scores, generator)
        blind = picked.blind[..., None]
        log = torch.log_softmax(scores.masked_fill(blind, 0.0), dim=-1)
        log = log.gather(-1, picked.index[..., None]).masked_fill(blind, 0.0)
        index = picked.index.masked_fill(picked.blind, -1)
        return Choice(picked.gather(value), index, log[..., 0])


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
        return best(scores).one_hot(scores) + soft - soft.detach()

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


@dataclass(frozen=True)
class Picked:
    """One key for each query, and which queries are blind: they see none."""

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
    """The key with the highest score of each row, the first of equals.

    torch finds a maximum far faster than its place: the place is sought only within the run of
    keys that holds the maximum.
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
    start = (highest.indices * _RUN).clamp_max(keys - _RUN)[..., None]
    run = scores.gather(-1, start + torch.arange(_RUN, device=scores.device))
    return Picked(start[..., 0] + run.argmax(dim=-1), highest.values == -torch.inf)


_RUN = 64
