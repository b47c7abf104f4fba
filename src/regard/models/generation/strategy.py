"""What every decoding strategy shares, and the simplest one: greedy search.

A strategy chooses the next token of every hypothesis from its logits. It applies the logits
processors, decides by the stopping criteria which hypotheses end, and scores those that do.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import InputError, NotFiniteError
from regard.models.generation.hypotheses import Hypotheses, SearchState
from regard.models.generation.logits_processors import Logits, LogitsProcessors
from regard.models.generation.stopping import StoppingCriteria
from regard.models.generation.topk import largest_per_row, logsumexp_per_row


@runtime_checkable
class Strategy(Protocol):
    """A way to choose tokens: greedy search, sampling or beam search."""

    def __call__(self, logits: Logits, search: SearchState) -> SearchState:
        """The search after every active hypothesis has one more token."""
        ...


@dataclass(frozen=True)
class LengthPenalty:
    """The score of a finished hypothesis: its log-probability / length ** power.

    Tokens that were forced as a prefix are not counted; `forced` has their number for each input.
    """

    power: float
    forced: Int[Tensor, " sentence"] | None = None

    def __call__(
        self,
        log_probabilities: Float[Tensor, " row"],
        input_index: Int[Tensor, " row"],
        length: int | Int[Tensor, " row"],
    ) -> Float[Tensor, " row"]:
        """The scores of hypotheses with `length` new tokens."""
        if self.forced is None:
            return log_probabilities / length**self.power
        return log_probabilities / (length - self.forced[input_index]).clamp(min=1) ** self.power


@dataclass(frozen=True)
class DecodingRules:
    """What holds for every strategy: the processors, the stopping criteria, the length penalty."""

    processors: LogitsProcessors
    stopping: StoppingCriteria
    penalty: LengthPenalty

    def advance(
        self, search: SearchState, extended: Hypotheses, ended: Bool[Tensor, " row"]
    ) -> SearchState:
        """The search with these hypotheses, those that have ended moved to the finished ones."""
        if not ended.any():
            return replace(search, active=extended)
        active = extended.select((~ended).nonzero().squeeze(1))
        finished = self.finish(extended.select(ended.nonzero().squeeze(1)))
        return replace(search, active=active, finished=(*search.finished, finished))

    def finish(self, hypotheses: Hypotheses) -> Hypotheses:
        """The hypotheses with their final scores."""
        length = hypotheses.new_tokens
        scores = self.penalty(hypotheses.beam_scores, hypotheses.input_index, length)
        return replace(hypotheses, beam_scores=scores)


@dataclass(frozen=True)
class GreedySearch:
    """Takes the likeliest token at every step."""

    rules: DecodingRules

    def __call__(self, logits: Logits, search: SearchState) -> SearchState:
        """The search after each row has taken its likeliest token."""
        hypotheses = search.active
        log_totals = logsumexp_per_row(logits)
        check_finite(log_totals, hypotheses)
        self.rules.processors(logits, log_totals, hypotheses)
        best, tokens = (part.squeeze(1) for part in largest_per_row(logits, 1))
        check_some_token_allowed(best, hypotheses.input_index, hypotheses.new_tokens)
        rows = hypotheses.all_rows
        scores = hypotheses.beam_scores + (best - log_totals)
        extended = hypotheses.extend(rows, tokens, scores)
        return self.rules.advance(search, extended, self.rules.stopping(hypotheses, rows, tokens))


def check_finite(per_row: Float[Tensor, " row"], hypotheses: Hypotheses) -> None:
    """Raise a NotFiniteError if the logsumexp, or the maximum, of a row of logits is not finite.

    Without this check a search would continue with arbitrary tokens and no message.
    """
    if not per_row.isfinite().all():
        row = int((~per_row.isfinite()).nonzero()[0])
        raise NotFiniteError(
            f"the logits of row {row} (input {int(hypotheses.input_index[row])}) are not finite at "
            f"step {hypotheses.new_tokens}; look for NaN or infinity in the model's weights and "
            "inputs"
        )


def check_some_token_allowed(
    best: Float[Tensor, " row"], input_index: Int[Tensor, " row"], step: int
) -> None:
    """Raise an InputError if even the best token of a row has the logit -inf."""
    if (best == -inf).any():
        number = int(input_index[best == -inf][0])
        raise InputError(
            f"every token is forbidden to input {number} at step {step}; ask for less by "
            "bad_words_ids, suppress_tokens, no_repeat_ngram_size and the like"
        )
