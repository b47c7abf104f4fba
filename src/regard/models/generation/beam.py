"""Beam search: the likeliest hypotheses of each input are continued side by side.

The beams of one input are neighbouring batch rows. Which row a hypothesis continues is recorded in
`Hypotheses.row_history`; the decoding loop reorders the model's key/value cache by it.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Hypotheses, SearchState
from regard.models.generation.logits_processors import Logits
from regard.models.generation.sampling import SamplingFilter
from regard.models.generation.strategy import DecodingRules, check_finite, check_some_token_allowed
from regard.models.generation.topk import largest_per_row, logsumexp_per_row


class Candidates(NamedTuple):
    """The best continuations of each input, best first: which row is continued by which token."""

    scores: Float[Tensor, "sentence candidate"]
    rows: Int[Tensor, "sentence candidate"]
    tokens: Int[Tensor, "sentence candidate"]

    def at(self, places: Int[Tensor, "sentence place"]) -> "Candidates":
        """The candidates of each input at these places."""
        return Candidates(*(part.gather(1, places) for part in self))

    def first(self, count: int) -> "Candidates":
        """The best `count` candidates of each input."""
        return Candidates(*(part[:, :count] for part in self))

    def where(self, chosen: Bool[Tensor, " sentence"]) -> "Candidates":
        """The candidates of the chosen inputs."""
        return Candidates(*(part[chosen] for part in self))

    def pad(self, count: int) -> "Candidates":
        """At least `count` candidates: a small vocabulary has fewer, the others score -inf."""
        missing = (0, count - self.rows.shape[1])
        if missing[1] <= 0:
            return self
        rows = torch.cat([self.rows, self.rows[:, :1].expand(-1, missing[1])], dim=1)
        return Candidates(
            F.pad(self.scores, missing, value=-inf), rows, F.pad(self.tokens, missing)
        )

    def extend(self, hypotheses: Hypotheses) -> Hypotheses:
        """The hypotheses that the candidates make of the rows that they continue."""
        return hypotheses.extend(self.rows.flatten(), self.tokens.flatten(), self.scores.flatten())


@dataclass(frozen=True)
class CandidateSampling:
    """Makes beam search draw its candidates at random instead of taking the likeliest."""

    filter: SamplingFilter
    generator: torch.Generator

    def filter_logits(self, log_probabilities: Logits) -> Logits:
        """The log-probabilities in the order of the vocabulary, -inf where the filter drops one."""
        kept, tokens = self.filter(log_probabilities)
        if tokens is None:
            return kept
        return torch.full_like(log_probabilities, -inf).scatter_(1, tokens, kept)

    def gumbel_noise(self, like: Tensor) -> Tensor:
        """Gumbel noise of this shape.

        The largest sums of log-probabilities and Gumbel noise are a sample without replacement
        (Kool et al. 2019).
        """
        return -torch.empty_like(like).exponential_(generator=self.generator).log()


@dataclass(frozen=True)
class BeamSearch:
    """Keeps `beams` hypotheses for each input.

    At each step there are twice as many candidates as beams. The best that do not end are
    continued, so that a finished hypothesis does not use up a beam; one that ends is kept only if
    it is among the best `beams` candidates. An input is done by the same rule as in transformers.
    """

    rules: DecodingRules
    beams: int
    early_stopping: bool | Literal["never"] = False
    sampling: CandidateSampling | None = None

    def __call__(self, logits: Logits, search: SearchState) -> SearchState:
        """The search after every input has chosen its next hypotheses."""
        hypotheses = search.active
        log_totals = logsumexp_per_row(logits)
        check_finite(log_totals, hypotheses)
        # Subtracting the total from a whole vocabulary costs a pass over it. Ranking needs none:
        # the total is the same for all tokens of a row and is subtracted from the row's score.
        if self.sampling is not None or self.rules.processors.need_log_probabilities:
            logits.sub_(log_totals[:, None])
            log_totals = torch.zeros_like(log_totals)
        self.rules.processors(logits, log_totals, hypotheses)
        candidates = self._candidates(logits, hypotheses.beam_scores - log_totals, hypotheses)
        if search.best_finished is None:
            first_inputs = hypotheses.input_index[candidates.rows[:, 0]]
            check_some_token_allowed(candidates.scores[:, 0], first_inputs, hypotheses.new_tokens)
        continued = candidates.rows.flatten(), candidates.tokens.flatten()
        ended = self.rules.stopping(hypotheses, *continued).view_as(candidates.rows)
        if search.best_finished is None and self.sampling is None and not ended.any():
            return replace(search, active=candidates.first(self.beams).extend(hypotheses))
        return self._continue(self._finish(search, candidates, ended), candidates, ended)

    def _candidates(
        self, logits: Logits, row_scores: Float[Tensor, " row"], hypotheses: Hypotheses
    ) -> Candidates:
        """Twice as many candidates as beams, or more where more can be lost to end tokens.

        Logits plus `row_scores` are the log-probabilities of whole hypotheses.
        """
        # Before the first token all beams of an input would be equal: there is one row for each.
        width = 1 if hypotheses.new_tokens == 0 else self.beams
        count = max(2, 1 + len(self.rules.stopping.eos)) * self.beams
        logits = logits if self.sampling is None else self.sampling.filter_logits(logits)
        keys = logits if self.sampling is None else logits + self.sampling.gumbel_noise(logits)
        values, tokens = largest_per_row(keys, min(count, logits.shape[1]))
        sums = (values + row_scores[:, None]).view(hypotheses.count // width, -1)
        scores, places = sums.topk(min(count, sums.shape[1]), dim=1)
        first_rows = torch.arange(0, hypotheses.count, width, device=places.device)[:, None]
        rows = first_rows + places // values.shape[1]
        tokens = tokens.view_as(sums).gather(1, places)
        if self.sampling is not None:  # the noise ranks, it is no part of the score
            scores = logits[rows, tokens] + row_scores[rows]
        return Candidates(scores, rows, tokens).pad(self.beams)

    def _finish(
        self, search: SearchState, candidates: Candidates, ended: Bool[Tensor, "sentence candidate"]
    ) -> SearchState:
        """The search with the candidates that end among the best `beams` added to the finished."""
        best_finished = search.best_finished
        if best_finished is None:
            best_finished = candidates.scores.new_full((len(ended), self.beams), -inf)
        ended = ended & (candidates.scores > -inf)
        ended[:, self.beams :] = False
        if not ended.any():
            return replace(search, best_finished=best_finished)
        scores, rows, tokens = candidates
        extended = search.active.extend(rows[ended], tokens[ended], scores[ended])
        finished = self.rules.finish(extended)
        finals = torch.full_like(scores, -inf).masked_scatter_(ended, finished.beam_scores)
        best_finished = torch.cat([best_finished, finals], dim=1).topk(self.beams, dim=1).values
        return replace(search, finished=(*search.finished, finished), best_finished=best_finished)

    def _continue(
        self, search: SearchState, candidates: Candidates, ended: Bool[Tensor, "sentence candidate"]
    ) -> SearchState:
        """The search with the best candidates that do not end, for the inputs that are not done."""
        unended = candidates._replace(scores=candidates.scores.masked_fill(ended, -inf))
        chosen = unended.at(unended.scores.topk(self.beams, dim=1).indices)
        going_on = ~self._is_done(search, candidates, chosen.scores[:, 0])
        assert search.best_finished is not None
        return replace(
            search,
            active=chosen.where(going_on).extend(search.active),
            best_finished=(
                search.best_finished if going_on.all() else search.best_finished[going_on]
            ),
        )

    def _is_done(
        self, search: SearchState, candidates: Candidates, best: Float[Tensor, " sentence"]
    ) -> Bool[Tensor, " sentence"]:
        """True for inputs whose search stops: no hypothesis is left, or none can become better.

        `best` is the score of the best hypothesis that would be continued.
        """
        assert search.best_finished is not None
        worst_finished = search.best_finished[:, -1]
        inputs = search.active.input_index[candidates.rows[:, 0]]
        nothing_left = best == -inf
        if self.early_stopping is True:
            return nothing_left | (worst_finished > -inf)
        length: int | Tensor = search.active.new_tokens + 1
        if self.early_stopping == "never" and self.rules.penalty.power > 0:
            # The longest possible sequence gets the best score that this hypothesis can reach.
            length = self.rules.stopping.max_new_tokens[inputs]
        possible = self.rules.penalty(best, inputs, length)
        return nothing_left | ((worst_finished > -inf) & ~(possible > worst_finished))
