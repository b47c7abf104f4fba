"""Logits processors: they force, forbid or penalise tokens before the next one is chosen.

A processor changes the logits in place. It is also given `log_totals`, the logsumexp of each row as
it was before all processors: logits minus log_totals are log-probabilities. A forced token gets
`log_totals` as its logit, which is a log-probability of 0, so that forcing a token costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Hypotheses

Logits = Float[Tensor, "row vocab"]
LogTotals = Float[Tensor, " row"]


@runtime_checkable
class LogitsProcessor(Protocol):
    """Changes the logits of the next token in place."""

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Change the logits of these hypotheses."""
        ...


@dataclass(frozen=True)
class RepetitionPenalty:
    """Makes tokens of the prompt and of the new text less likely (Keskar et al. 2019, sec. 4.1)."""

    penalty: float

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Divide positive logits by the penalty and multiply negative ones."""
        # Padding is no token: where it stands, the last token is used a second time instead.
        ids = hypotheses.ids
        used = torch.where(ids < 0, ids[:, -1:], ids)
        old = logits.gather(1, used)
        logits.scatter_(1, used, torch.where(old < 0, old * self.penalty, old / self.penalty))


@dataclass(frozen=True)
class NoRepeatedNgram:
    """Lets no n-gram of `size` tokens occur twice (Paulus et al. 2018, section 2.5)."""

    size: int

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Forbid the last token of every n-gram whose other tokens have just been generated."""
        ids = hypotheses.ids
        if ids.shape[1] < self.size:
            return
        ngrams = ids.unfold(1, self.size, 1)
        newest = ids[:, None, ids.shape[1] - self.size + 1 :]
        rows, places = (ngrams[..., :-1] == newest).all(dim=-1).nonzero(as_tuple=True)
        logits[rows, ngrams[rows, places, -1]] = -inf


@dataclass(frozen=True)
class ForbiddenPhrase:
    """Lets one sequence of two or more tokens never be generated."""

    phrase: Int[Tensor, " length"]

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Forbid the last token of the phrase where the others have just been generated."""
        before = len(self.phrase) - 1
        if hypotheses.ids.shape[1] >= before:
            begun = (hypotheses.ids[:, -before:] == self.phrase[:-1]).all(dim=1)
            logits[begun, self.phrase[-1]] = -inf


@dataclass(frozen=True)
class SuppressTokens:
    """Forbids some tokens at every step, or only at one step if `step` is given."""

    tokens: Int[Tensor, " token"]
    step: int | None = None

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Set the logits of the tokens to -inf."""
        if self.step in (None, hypotheses.new_tokens):
            logits.index_fill_(1, self.tokens, -inf)


@dataclass(frozen=True)
class MinimumLength:
    """Forbids the end tokens until each input has its least number of new tokens.

    `last_step` is the largest of these numbers: from then on there is nothing to do.
    """

    eos: Int[Tensor, " eos"]
    min_new_tokens: Int[Tensor, " sentence"]
    last_step: int

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Forbid the end tokens in rows that are still too short."""
        if hypotheses.new_tokens < self.last_step:
            too_short = hypotheses.new_tokens < self.min_new_tokens[hypotheses.input_index]
            logits[too_short.nonzero(), self.eos] = -inf


@dataclass(frozen=True)
class ForceTokens:
    """Makes each input generate one of some tokens at a given step of its own.

    `first_step` is the smallest of the steps: before it there is nothing to do.
    """

    tokens: Int[Tensor, " token"]
    steps: Int[Tensor, " sentence"]
    first_step: int

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Forbid all other tokens; the forced ones get the log-probability 0."""
        if hypotheses.new_tokens >= self.first_step:
            rows = (self.steps[hypotheses.input_index] == hypotheses.new_tokens).nonzero()
            logits[rows.squeeze(1)] = -inf
            logits[rows, self.tokens] = log_totals[rows]


@dataclass(frozen=True)
class ForcePrefix:
    """Makes each input begin with tokens of its own; -1 follows the end of a shorter prefix."""

    prefixes: Int[Tensor, "sentence length"]

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Force the next token of the prefix in rows whose prefix is not complete."""
        if hypotheses.new_tokens >= self.prefixes.shape[1]:
            return
        tokens = self.prefixes[hypotheses.input_index, hypotheses.new_tokens]
        rows = (tokens >= 0).nonzero().squeeze(1)
        logits[rows] = -inf
        logits[rows, tokens[rows]] = log_totals[rows]


@dataclass(frozen=True)
class LogitsProcessors:
    """Several processors, applied one after the other."""

    processors: Sequence[LogitsProcessor] = ()

    def __call__(self, logits: Logits, log_totals: LogTotals, hypotheses: Hypotheses) -> None:
        """Apply all of them in order."""
        for processor in self.processors:
            processor(logits, log_totals, hypotheses)

    @property
    def need_log_probabilities(self) -> bool:
        """True if logits that are not normalised would give another result.

        The repetition penalty depends on the sign of its input. Beam search applies it to
        log-probabilities, as transformers does.
        """
        return any(isinstance(processor, RepetitionPenalty) for processor in self.processors)
