"""Beam search: the likeliest hypotheses of each sentence side by side."""

from dataclasses import dataclass, replace
from math import inf
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Board, Drafts
from regard.models.generation.sampling import Filter
from regard.models.generation.strategy import Course, Logits, check_choice, check_finite
from regard.models.generation.topk import largest, log_totals


class Candidates(NamedTuple):
    """The likeliest continuations of each sentence, best first: which row, and which token."""

    scores: Float[Tensor, "sentence candidate"]
    rows: Int[Tensor, "sentence candidate"]
    tokens: Int[Tensor, "sentence candidate"]

    def at(self, places: Int[Tensor, "sentence place"]) -> "Candidates":
        """The candidates of each sentence at these places."""
        return Candidates(*(part.gather(1, places) for part in self))

    def first(self, count: int) -> "Candidates":
        """The best of each sentence."""
        return Candidates(*(part[:, :count] for part in self))

    def where(self, chosen: Bool[Tensor, " sentence"]) -> "Candidates":
        """Those of the chosen sentences."""
        return Candidates(*(part[chosen] for part in self))

    def filled(self, count: int) -> "Candidates":
        """At least so many: where a small vocabulary has fewer, with impossible ones."""
        lacking = (0, count - self.rows.shape[1])
        if lacking[1] <= 0:
            return self
        rows = torch.cat([self.rows, self.rows[:, :1].expand(-1, lacking[1])], dim=1)
        return Candidates(
            F.pad(self.scores, lacking, value=-inf), rows, F.pad(self.tokens, lacking)
        )

    def grown(self, drafts: Drafts) -> Drafts:
        """The drafts that they make."""
        return drafts.grown(self.rows.flatten(), self.tokens.flatten(), self.scores.flatten())


@dataclass(frozen=True)
class Chance:
    """What makes beam search draw its candidates instead of taking the likeliest."""

    filter: Filter
    source: torch.Generator

    def __call__(self, logs: Logits) -> Logits:
        """The logs that the filter leaves."""
        left, tokens = self.filter(logs)
        return left if tokens is None else torch.full_like(logs, -inf).scatter_(1, tokens, left)

    def noise(self, like: Tensor) -> Tensor:
        """Gumbel noise: the largest sums are a draw without replacement (Kool et al. 2019)."""
        return -torch.empty_like(like).exponential_(generator=self.source).log()


@dataclass(frozen=True)
class Beam:
    """As many hypotheses for each sentence as it has beams, its rows beside each other.

    Of twice as many candidates the best that do not end go on, so that an end costs no beam; one
    that ends is kept if it is among the best `beams`. Stops a sentence as transformers does.
    """

    course: Course
    beams: int
    early_stopping: bool | Literal["never"] = False
    chance: Chance | None = None

    def __call__(self, logits: Logits, board: Board) -> Board:
        """The board after every sentence has chosen its next hypotheses."""
        drafts = board.drafts
        totals = log_totals(logits)
        check_finite(totals, drafts)
        if self.chance is not None or self.course.rules.absolute:
            logits.sub_(totals[:, None])
            totals = torch.zeros_like(totals)
        self.course.rules(logits, totals, drafts)
        candidates = self._candidates(logits, drafts.scores - totals, drafts)
        if board.bank is None:
            check_choice(
                candidates.scores[:, 0], drafts.sentences[candidates.rows[:, 0]], drafts.new
            )
        flat = candidates.rows.flatten(), candidates.tokens.flatten()
        over = self.course.ends(drafts, *flat).view_as(candidates.rows)
        if board.bank is None and self.chance is None and not over.any():
            return replace(board, drafts=candidates.first(self.beams).grown(drafts))
        board = self._finish(board, candidates, over)
        open_ones = candidates._replace(scores=candidates.scores.masked_fill(over, -inf))
        chosen = open_ones.at(open_ones.scores.topk(self.beams, dim=1).indices)
        going = ~self._done(board, candidates, chosen.scores[:, 0])
        assert board.bank is not None
        return replace(
            board,
            drafts=chosen.where(going).grown(drafts),
            bank=board.bank if going.all() else board.bank[going],
        )

    def _candidates(
        self, logits: Logits, scores: Float[Tensor, " row"], drafts: Drafts
    ) -> Candidates:
        """Twice as many as there are beams, or as many as can be lost to ends.

        `scores` are those of the drafts, less what makes log-probabilities of the logits.
        """
        width = 1 if drafts.new == 0 else self.beams
        count = max(2, 1 + len(self.course.ends.eos)) * self.beams
        logits = logits if self.chance is None else self.chance(logits)
        keys = logits if self.chance is None else logits + self.chance.noise(logits)
        values, tokens = largest(keys, min(count, logits.shape[1]))
        sums = (values + scores[:, None]).view(drafts.rows // width, -1)
        best, places = sums.topk(min(count, sums.shape[1]), dim=1)
        first = torch.arange(0, drafts.rows, width, device=places.device)[:, None]
        rows = first + places // values.shape[1]
        tokens = tokens.view_as(sums).gather(1, places)
        if self.chance is not None:
            best = logits[rows, tokens] + scores[rows]
        return Candidates(best, rows, tokens).filled(self.beams)

    def _finish(
        self, board: Board, candidates: Candidates, over: Bool[Tensor, "sentence candidate"]
    ) -> Board:
        """The board with what has just ended among the best, as long as it is possible at all."""
        bank = board.bank
        if bank is None:
            bank = candidates.scores.new_full((len(over), self.beams), -inf)
        ended = over & (candidates.scores > -inf)
        ended[:, self.beams :] = False
        if not ended.any():
            return replace(board, bank=bank)
        scores, rows, tokens = candidates
        done = self.course.finished(board.drafts.grown(rows[ended], tokens[ended], scores[ended]))
        finals = torch.full_like(scores, -inf).masked_scatter_(ended, done.scores)
        bank = torch.cat([bank, finals], dim=1).topk(self.beams, dim=1).values
        return replace(board, finished=(*board.finished, done), bank=bank)

    def _done(
        self, board: Board, candidates: Candidates, best: Float[Tensor, " sentence"]
    ) -> Bool[Tensor, " sentence"]:
        """Which sentences stop: none of their hypotheses goes on, or none can or may get better."""
        assert board.bank is not None
        worst = board.bank[:, -1]
        sentences = board.drafts.sentences[candidates.rows[:, 0]]
        stuck = best == -inf
        if self.early_stopping is True:
            return stuck | (worst > -inf)
        length: int | Tensor = board.drafts.new + 1
        if self.early_stopping == "never" and self.course.penalty.power > 0:
            length = self.course.ends.longest[sentences]
        possible = self.course.penalty(best, sentences, length)
        return stuck | ((worst > -inf) & ~(possible > worst))
