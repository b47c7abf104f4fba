"""What the settings ask of the next token: forced, forbidden and repeated tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Drafts

Logits = Float[Tensor, "row vocab"]
Totals = Float[Tensor, " row"]


@runtime_checkable
class Rule(Protocol):
    """Changes the logits of the next token in place; less the totals they are log-probabilities."""

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Change the logits of these drafts."""
        ...


@dataclass(frozen=True)
class RepetitionPenalty:
    """Tokens that were read or written before lose (Keskar et al. 2019, section 4.1)."""

    penalty: float

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Divide what is positive, multiply what is negative."""
        seen = torch.where(drafts.ids < 0, drafts.ids[:, -1:], drafts.ids)
        old = logits.gather(1, seen)
        logits.scatter_(1, seen, torch.where(old < 0, old * self.penalty, old / self.penalty))


@dataclass(frozen=True)
class NoRepeatedPhrase:
    """No sequence of `size` tokens comes twice (Paulus et al. 2018, section 2.5)."""

    size: int

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Forbid the last token of each phrase whose beginning has just been written."""
        if drafts.ids.shape[1] < self.size:
            return
        phrases = drafts.ids.unfold(1, self.size, 1)
        begun = drafts.ids[:, None, drafts.ids.shape[1] - self.size + 1 :]
        rows, places = (phrases[..., :-1] == begun).all(dim=-1).nonzero(as_tuple=True)
        logits[rows, phrases[rows, places, -1]] = -inf


@dataclass(frozen=True)
class NoPhrase:
    """This sequence of two tokens or more is never written."""

    phrase: Int[Tensor, " length"]

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Forbid its last token where the others have just been written."""
        before = len(self.phrase) - 1
        if drafts.ids.shape[1] >= before:
            begun = (drafts.ids[:, -before:] == self.phrase[:-1]).all(dim=1)
            logits[begun, self.phrase[-1]] = -inf


@dataclass(frozen=True)
class Suppressed:
    """These tokens are never written, or with `at` not as this one of the new tokens."""

    tokens: Int[Tensor, " token"]
    at: int | None = None

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Forbid them."""
        if self.at in (None, drafts.new):
            logits.index_fill_(1, self.tokens, -inf)


@dataclass(frozen=True)
class NotBefore:
    """No end before each sentence has written its least number of tokens."""

    eos: Int[Tensor, " eos"]
    shortest: Int[Tensor, " sentence"]
    latest: int

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Forbid the end tokens where it is too soon."""
        if drafts.new < self.latest:
            soon = drafts.new < self.shortest[drafts.sentences]
            logits[soon.nonzero(), self.eos] = -inf


@dataclass(frozen=True)
class Forced:
    """Each sentence writes one of these tokens at its step, the first of them at `soonest`."""

    tokens: Int[Tensor, " token"]
    steps: Int[Tensor, " sentence"]
    soonest: int

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Forbid all other tokens; what is forced costs nothing."""
        if drafts.new >= self.soonest:
            rows = (self.steps[drafts.sentences] == drafts.new).nonzero()
            logits[rows.squeeze(1)] = -inf
            logits[rows, self.tokens] = totals[rows]


@dataclass(frozen=True)
class Prefixed:
    """Each sentence begins with its own tokens, -1 after their end."""

    prefixes: Int[Tensor, "sentence length"]

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Force the next token of the prefix where it has one."""
        if drafts.new >= self.prefixes.shape[1]:
            return
        tokens = self.prefixes[drafts.sentences, drafts.new]
        rows = (tokens >= 0).nonzero().squeeze(1)
        logits[rows] = -inf
        logits[rows, tokens[rows]] = totals[rows]


@dataclass(frozen=True)
class Rules:
    """Several rules, one after the other."""

    rules: Sequence[Rule] = ()

    def __call__(self, logits: Logits, totals: Totals, drafts: Drafts) -> None:
        """Apply each."""
        for rule in self.rules:
            rule(logits, totals, drafts)

    @property
    def absolute(self) -> bool:
        """Whether one of them changes what log-probabilities have and logits have not: a sign."""
        return any(isinstance(rule, RepetitionPenalty) for rule in self.rules)
