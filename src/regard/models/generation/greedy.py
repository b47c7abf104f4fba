"""Greedy search: each row takes its likeliest token."""

from dataclasses import dataclass

from regard.models.generation.drafts import Board
from regard.models.generation.largest import largest, log_totals
from regard.models.generation.strategy import (
    Course,
    Logits,
    check_choice,
    check_finite,
    everyone,
)


@dataclass(frozen=True)
class Greedy:
    """The likeliest token at every step."""

    course: Course

    def __call__(self, logits: Logits, board: Board) -> Board:
        """The board after each row has taken its likeliest token."""
        drafts = board.drafts
        totals = log_totals(logits)
        check_finite(totals, drafts)
        self.course.rules(logits, totals, drafts)
        best, tokens = (part.squeeze(1) for part in largest(logits, 1))
        check_choice(best, drafts.sentences, drafts.new)
        rows = everyone(drafts)
        grown = drafts.grown(rows, tokens, drafts.scores + (best - totals))
        return self.course.follow(board, grown, self.course.ends(drafts, rows, tokens))
