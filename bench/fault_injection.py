"""Faults that are injected into running models by edits of their attention, at strengths 0 to 1.

At strength s a fault replaces the weights w of a head by (1 - s) w + s f, where f are faulty
weights, or opens the share s of a mask, or changes the share s of rows; each docstring says which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.kernels.observe.full_weights import weigh
from regard.masks import explicit
from regard.tracing import AttentionCall, Edit


@dataclass(frozen=True)
class FaultLocation:
    """Where a fault is injected: a site, a head, another head, and a source word's columns."""

    site: str
    head: int = 0
    other: int = 1
    columns: tuple[int, ...] = ()


# Returns the weights of all heads with the fault at a location and a strength.
Fault = Callable[[AttentionCall, FaultLocation, float], Tensor]


@dataclass(frozen=True)
class InjectedFault:
    """The edit that injects a fault; a fault of a source word is injected at every cross site."""

    make: Fault
    location: FaultLocation
    strength: float
    sites: Sequence[str]

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The call's weights with the fault, None at other sites."""
        if call.site not in self.sites:
            return None
        torch.manual_seed(17)
        return Edit(weights=self.make(call, self.location, self.strength))


def mix_into_head(faulty: Callable[[AttentionCall, FaultLocation, Tensor], Tensor]) -> Fault:
    """A fault that mixes the weights of one head with those that `faulty` returns."""

    def make(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
        weights = call.weights().clone()
        wrong = faulty(call, location, weights)
        own = weights[:, location.head]
        weights[:, location.head] = (1 - strength) * own + strength * wrong.to(weights)
        return weights

    return make


def _uniform_weights(call: AttentionCall, location: FaultLocation, weights: Tensor) -> Tensor:
    seen = call.seen()[:, location.head]
    return seen / seen.sum(dim=-1, keepdim=True).clamp_min(1)


def _copied_weights(call: AttentionCall, location: FaultLocation, weights: Tensor) -> Tensor:
    return weights[:, location.other]


def _sink_weights(call: AttentionCall, location: FaultLocation, weights: Tensor) -> Tensor:
    first = call.seen()[:, location.head].int().argmax(dim=-1)
    return torch.nn.functional.one_hot(first, call.sizes[3])


def _constant_weights(call: AttentionCall, location: FaultLocation, weights: Tensor) -> Tensor:
    """Weights that depend on position alone: each key position has a fixed random score."""
    scores = 2 * torch.randn(512, generator=torch.Generator().manual_seed(3))[: call.sizes[3]]
    seen = call.seen()[:, location.head]
    return scores.masked_fill(~seen, -1e4).softmax(dim=-1) * seen


def one_hot(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """All heads of a site at a temperature of 1 - s; at 0 the largest weight takes all."""
    weights = call.weights()
    if strength == 1:
        return torch.nn.functional.one_hot(weights.argmax(dim=-1), weights.shape[-1]).to(weights)
    sharp = weights.pow(1 / (1 - strength))
    return sharp / sharp.sum(dim=-1, keepdim=True).clamp_min(1e-30)


def average_heads(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """All heads of a site moved towards their mean."""
    weights = call.weights()
    return (1 - strength) * weights + strength * weights.mean(dim=1, keepdim=True)


def zero_rows(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """The share s of a head's rows set to zero."""
    weights = call.weights().clone()
    rows = torch.rand(call.sizes[2]) < strength
    weights[:, location.head, rows] = 0
    return weights


def nan_rows(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """The share s of a head's rows, at least one, set to NaN."""
    weights = call.weights().clone()
    rows = torch.rand(call.sizes[2]) < strength
    rows[-1] = True
    weights[:, location.head, rows] = torch.nan
    return weights


def scale_rows(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """A head's rows scaled to sum to 1 + s."""
    weights = call.weights().clone()
    weights[:, location.head] *= 1 + strength
    return weights


def open_mask(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """A site's mask with the share s of hidden keys, future or padding, made visible."""
    assert call.query is not None
    assert call.key is not None
    assert call.scoring is not None
    seen = call.seen()
    through = torch.rand(1, 1, call.sizes[2], call.sizes[3]) < strength
    return weigh(call.query, call.key, replace(call.scoring, mask=explicit(seen | through)))


def drop_word(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """A source word that loses the share s of its weight in every head."""
    weights = call.weights().clone()
    weights[..., list(location.columns)] *= 1 - strength
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-30)


def repeat_word(call: AttentionCall, location: FaultLocation, strength: float) -> Tensor:
    """A source word that receives the share s of every head's weight at every step."""
    weights = (1 - strength) * call.weights()
    weights[..., location.columns[0]] += strength
    return weights


FAULTS: dict[str, Fault] = {
    "numeric": nan_rows,
    "sums": scale_rows,
    "padding": open_mask,
    "leak": open_mask,
    "silent": zero_rows,
    "uniform": mix_into_head(_uniform_weights),
    "constant": mix_into_head(_constant_weights),
    "collapsed": average_heads,
    "one-hot": one_hot,
    "dropped": drop_word,
    "repeated": repeat_word,
    "sink": mix_into_head(_sink_weights),
    "redundant": mix_into_head(_copied_weights),
}
