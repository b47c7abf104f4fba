"""Sampling: each row draws its next token from a filtered distribution (top-k, top-p, min-p)."""

from dataclasses import dataclass, replace
from math import inf, log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import SearchState
from regard.models.generation.logits_processors import Logits
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.strategy import DecodingRules, check_finite, check_some_token_allowed
from regard.models.generation.topk import largest_per_row

Columns = Float[Tensor, "row column"]
_LOWEST_TEMPERATURE = 1e-30  # a lower one would make logits infinite, and their softmax NaN
_USUALLY_ENOUGH = 512  # tokens; they nearly always hold the probability mass of top-p


@dataclass(frozen=True)
class SamplingFilter:
    """Decides which tokens may be drawn: first temperature, then top-k, top-p and min-p.

    top-k keeps the k likeliest tokens (Fan et al. 2018); top-p the fewest whose probabilities add
    up to p (Holtzman et al. 2020); min-p those with at least min_p times the largest probability
    (Nguyen et al. 2024). Each filter works on what the one before has left, and `min_tokens` are
    kept whatever the filters say.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    min_tokens: int = 1

    @classmethod
    def from_settings(cls, settings: GenerationSettings, min_tokens: int = 1) -> "SamplingFilter":
        """The filter of these settings, which keeps at least `min_tokens` tokens."""
        options = (settings.temperature, settings.top_k, settings.top_p, settings.min_p)
        return cls(*options, min_tokens)

    def __call__(self, logits: Logits) -> tuple[Columns, Int[Tensor, "row column"] | None]:
        """The logits that are kept, -inf for those that are not, and the token of each column.

        The tokens are None if the columns are the whole vocabulary in its order.
        """
        if self.temperature != 1:
            logits = logits / max(self.temperature, _LOWEST_TEMPERATURE)
        count = max(self.top_k, self.min_tokens)
        if self.top_k > 0 and count < logits.shape[1]:
            values, tokens = largest_per_row(logits, count)
            return self._filter_sorted(values, values.logsumexp(dim=1, keepdim=True)), tokens
        if self.top_p == 1 and self.min_p == 0:
            return logits, None
        return self._filter_likeliest(logits)

    def _filter_likeliest(self, logits: Logits) -> tuple[Columns, Int[Tensor, "row column"]]:
        """The likeliest tokens, filtered; the whole vocabulary is sorted only if that is needed."""
        log_total = logits.logsumexp(dim=1, keepdim=True)
        if logits.shape[1] > _USUALLY_ENOUGH:
            values, tokens = largest_per_row(logits, _USUALLY_ENOUGH)
            kept = self._filter_sorted(values, log_total)
            # If the last of them is filtered out in every row, so are all that are less likely.
            if (kept[:, -1] == -inf).all():
                return kept, tokens
        values, tokens = logits.sort(dim=1, descending=True)
        return self._filter_sorted(values, log_total), tokens

    def _filter_sorted(self, falling: Columns, log_total: Float[Tensor, "row 1"]) -> Columns:
        """Logits in falling order with -inf where top-p or min-p drops one."""
        if self.top_p < 1:
            probabilities = (falling - log_total).exp()
            mass_before = probabilities.cumsum(dim=1) - probabilities
            falling = falling.masked_fill(self._spare_first(mass_before >= self.top_p), -inf)
        if self.min_p > 0:
            least = falling[:, :1] + log(self.min_p)
            falling = falling.masked_fill(self._spare_first(falling < least), -inf)
        return falling

    def _spare_first(self, dropped: Bool[Tensor, "row column"]) -> Bool[Tensor, "row column"]:
        """The same mask, but the likeliest `min_tokens` are never dropped."""
        dropped[:, : self.min_tokens] = False
        return dropped


def draw_columns(logits: Columns, generator: torch.Generator) -> Int[Tensor, " row"]:
    """One column of each row, drawn with the probabilities softmax(logits).

    It inverts the cumulative distribution, in float64: a uniform number between 0 and the total
    falls into the interval of one column.
    """
    cumulative = logits.double().softmax(dim=1).cumsum(dim=1)
    uniform = torch.rand(
        len(logits), 1, dtype=cumulative.dtype, device=cumulative.device, generator=generator
    )
    drawn = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    return drawn.squeeze(1).clamp_(max=logits.shape[1] - 1)


@dataclass(frozen=True)
class Sampling:
    """Draws a token at every step, for `samples` sequences of each input."""

    rules: DecodingRules
    filter: SamplingFilter
    generator: torch.Generator
    samples: int = 1

    def __call__(self, logits: Logits, search: SearchState) -> SearchState:
        """The search after each row has drawn a token; at the first step rows are repeated."""
        hypotheses = search.active
        samples = self.samples if hypotheses.new_tokens == 0 else 1
        check_finite(logits.amax(dim=1), hypotheses)
        # The filters normalise again, so no total is needed here: a forced token gets the logit 0.
        self.rules.processors(logits, torch.zeros_like(hypotheses.beam_scores), hypotheses)
        best = logits.amax(dim=1)
        check_some_token_allowed(best, hypotheses.input_index, hypotheses.new_tokens)
        rows = hypotheses.all_rows.repeat_interleave(samples)
        kept, vocabulary = self.filter(logits)
        kept = kept if samples == 1 else kept[rows]
        columns = draw_columns(kept, self.generator)[:, None]
        log_probabilities = kept.gather(1, columns).squeeze(1) - kept.logsumexp(dim=1)
        tokens = columns if vocabulary is None else vocabulary[rows].gather(1, columns)
        tokens = tokens.squeeze(1)
        scores = hypotheses.beam_scores[rows] + log_probabilities
        extended = hypotheses.extend(rows, tokens, scores)
        if samples > 1:
            extended = replace(extended, sample_index=extended.all_rows % samples)
        return self.rules.advance(search, extended, self.rules.stopping(hypotheses, rows, tokens))
