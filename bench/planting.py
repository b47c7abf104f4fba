"""Faults planted in models while they run, at strengths from nothing to all, by edits of attention.

At strength s the weights of a head are (1 - s) w + s f, f being what the fault would have them be,
or the share s of a mask is open, or of rows is spoilt: each fault says which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.kernels.observe.full_weights import weigh
from regard.masks import explicit
from regard.tracing import AttentionCall, Edit


@dataclass(frozen=True)
class Place:
    """Where a fault is planted: a site, a head of it, another head, and a source word's columns."""

    site: str
    head: int = 0
    other: int = 1
    columns: tuple[int, ...] = ()


Maker = Callable[[AttentionCall, Place, float], Tensor]  # the weights of all heads with the fault


@dataclass(frozen=True)
class Planted:
    """The edit that plants a fault at a place: at every cross site where it is of a word."""

    make: Maker
    place: Place
    strength: float
    sites: Sequence[str]

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The call's weights with the fault in them."""
        if call.site not in self.sites:
            return None
        torch.manual_seed(17)
        return Edit(weights=self.make(call, self.place, self.strength))


def mixed(faulty: Callable[[AttentionCall, Place, Tensor], Tensor]) -> Maker:
    """The weights of one head mixed with what a fault would have them be."""

    def make(call: AttentionCall, place: Place, strength: float) -> Tensor:
        weights = call.weights().clone()
        wrong = faulty(call, place, weights)
        own = weights[:, place.head]
        weights[:, place.head] = (1 - strength) * own + strength * wrong.to(weights)
        return weights

    return make


def _uniform(call: AttentionCall, place: Place, weights: Tensor) -> Tensor:
    seen = call.seen()[:, place.head]
    return seen / seen.sum(dim=-1, keepdim=True).clamp_min(1)


def _copied(call: AttentionCall, place: Place, weights: Tensor) -> Tensor:
    return weights[:, place.other]


def _sink(call: AttentionCall, place: Place, weights: Tensor) -> Tensor:
    first = call.seen()[:, place.head].int().argmax(dim=-1)
    return torch.nn.functional.one_hot(first, call.sizes[3])


def _constant(call: AttentionCall, place: Place, weights: Tensor) -> Tensor:
    """Weights by position alone: each key has a score of its own, whatever stands there."""
    scores = 2 * torch.randn(512, generator=torch.Generator().manual_seed(3))[: call.sizes[3]]
    seen = call.seen()[:, place.head]
    return scores.masked_fill(~seen, -1e4).softmax(dim=-1) * seen


def one_hot(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """All heads of a site at a temperature of 1 - s: 0 is the largest weight alone."""
    weights = call.weights()
    if strength == 1:
        return torch.nn.functional.one_hot(weights.argmax(dim=-1), weights.shape[-1]).to(weights)
    sharp = weights.pow(1 / (1 - strength))
    return sharp / sharp.sum(dim=-1, keepdim=True).clamp_min(1e-30)


def collapsed(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """All heads of a site drawn to their mean."""
    weights = call.weights()
    return (1 - strength) * weights + strength * weights.mean(dim=1, keepdim=True)


def silent(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """The share s of a head's rows without any weight."""
    weights = call.weights().clone()
    rows = torch.rand(call.sizes[2]) < strength
    weights[:, place.head, rows] = 0
    return weights


def broken(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """The share s of a head's rows, one at least, not a number."""
    weights = call.weights().clone()
    rows = torch.rand(call.sizes[2]) < strength
    rows[-1] = True
    weights[:, place.head, rows] = torch.nan
    return weights


def oversized(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """A head whose rows sum to 1 + s."""
    weights = call.weights().clone()
    weights[:, place.head] *= 1 + strength
    return weights


def opened(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """A site whose mask lets the share s of hidden keys through: the future, or padding."""
    assert call.query is not None
    assert call.key is not None
    assert call.scoring is not None
    seen = call.seen()
    through = torch.rand(1, 1, call.sizes[2], call.sizes[3]) < strength
    return weigh(call.query, call.key, replace(call.scoring, mask=explicit(seen | through)))


def dropped(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """A source word from which every head takes the share s of its weight."""
    weights = call.weights().clone()
    weights[..., list(place.columns)] *= 1 - strength
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-30)


def repeated(call: AttentionCall, place: Place, strength: float) -> Tensor:
    """A source word to which every head gives the share s of its weight at every step."""
    weights = (1 - strength) * call.weights()
    weights[..., place.columns[0]] += strength
    return weights


MAKERS: dict[str, Maker] = {
    "numeric": broken,
    "sums": oversized,
    "padding": opened,
    "leak": opened,
    "silent": silent,
    "uniform": mixed(_uniform),
    "constant": mixed(_constant),
    "collapsed": collapsed,
    "one-hot": one_hot,
    "dropped": dropped,
    "repeated": repeated,
    "sink": mixed(_sink),
    "redundant": mixed(_copied),
}
