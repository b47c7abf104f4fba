"""Sampling: each row draws its token from what the filters leave of its distribution."""

from dataclasses import dataclass, replace
from math import inf, log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Board
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.strategy import Course, Logits, check_choice, check_finite, everyone
from regard.models.generation.topk import largest

Columns = Float[Tensor, "row column"]
_LIKELY = 512  # tokens that mostly hold the mass that top-p asks for


@dataclass(frozen=True)
class Filter:
    """Which tokens may be drawn; each filter asks what the temperature and the one before left.

    top-k: the likeliest k (Fan et al. 2018); top-p: the fewest of mass p (Holtzman et al. 2020);
    min-p: those at least so many times as likely as the likeliest (Nguyen et al. 2024).
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    least: int = 1

    @classmethod
    def of(cls, settings: GenerationSettings, least: int = 1) -> "Filter":
        """The filter that the settings ask for, at least so many tokens left."""
        asked = (settings.temperature, settings.top_k, settings.top_p, settings.min_p)
        return cls(*asked, least)

    def __call__(self, logits: Logits) -> tuple[Columns, Int[Tensor, "row column"] | None]:
        """Logits that are left, -inf where none is, and the tokens they are of if not all."""
        logits = logits if self.temperature == 1 else logits / self.temperature
        count = max(self.top_k, self.least)
        if self.top_k > 0 and count < logits.shape[1]:
            values, tokens = largest(logits, count)
            return self._thinned(values, values.logsumexp(dim=1, keepdim=True)), tokens
        if self.top_p == 1 and self.min_p == 0:
            return logits, None
        return self._likely(logits)

    def _likely(self, logits: Logits) -> tuple[Columns, Int[Tensor, "row column"]]:
        """The filtered head of the sorted logits; all are sorted only if the head cannot do."""
        mass = logits.logsumexp(dim=1, keepdim=True)
        if logits.shape[1] > _LIKELY:
            values, tokens = largest(logits, _LIKELY)
            thinned = self._thinned(values, mass)
            if (thinned[:, -1] == -inf).all():
                return thinned, tokens
        values, tokens = logits.sort(dim=1, descending=True)
        return self._thinned(values, mass), tokens

    def _thinned(self, falling: Columns, mass: Float[Tensor, "row 1"]) -> Columns:
        """Of logits in falling order, those that top-p and min-p leave."""
        if self.top_p < 1:
            shares = (falling - mass).exp()
            before = shares.cumsum(dim=1) - shares
            falling = falling.masked_fill(self._cut(before >= self.top_p), -inf)
        if self.min_p > 0:
            falling = falling.masked_fill(
                self._cut(falling < falling[:, :1] + log(self.min_p)), -inf
            )
        return falling

    def _cut(self, cut: Bool[Tensor, "row column"]) -> Bool[Tensor, "row column"]:
        cut[:, : self.least] = False
        return cut


def draw(logits: Columns, source: torch.Generator) -> Int[Tensor, " row"]:
    """A column of each row, drawn with the probabilities of its logits."""
    heaps = logits.double().softmax(dim=1).cumsum(dim=1)
    spots = torch.rand(len(logits), 1, dtype=heaps.dtype, device=heaps.device, generator=source)
    drawn = torch.searchsorted(heaps, spots * heaps[:, -1:], right=True)
    return drawn.squeeze(1).clamp_(max=logits.shape[1] - 1)


@dataclass(frozen=True)
class Sampling:
    """A token drawn at every step, in several sequences for each sentence."""

    course: Course
    filter: Filter
    source: torch.Generator
    sequences: int = 1

    def __call__(self, logits: Logits, board: Board) -> Board:
        """The board after each row has drawn its token; with the first, a sentence's rows part."""
        drafts, copies = board.drafts, self.sequences if board.drafts.new == 0 else 1
        check_finite(logits.amax(dim=1), drafts)
        self.course.rules(logits, torch.zeros_like(drafts.scores), drafts)
        check_choice(logits.amax(dim=1), drafts.sentences, drafts.new)
        rows = everyone(drafts).repeat_interleave(copies)
        left, tokens = self.filter(logits)
        left = left if copies == 1 else left[rows]
        drawn = draw(left, self.source)[:, None]
        gains = left.gather(1, drawn).squeeze(1) - left.logsumexp(dim=1)
        chosen = (drawn if tokens is None else tokens[rows].gather(1, drawn)).squeeze(1)
        grown = drafts.grown(rows, chosen, drafts.scores[rows] + gains)
        if copies > 1:
            grown = replace(grown, copies=everyone(grown) % copies)
        return self.course.follow(board, grown, self.course.ends(drafts, rows, chosen))
