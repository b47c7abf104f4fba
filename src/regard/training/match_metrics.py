"""Metrics of a ranking: how often the first entry is right, and the mean reciprocal rank."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError

__all__ = ["MatchMetrics", "match_metrics"]


@dataclass(frozen=True)
class MatchMetrics:
    """How well entries were ranked.

    `first` is the share of questions whose first entry is right, `mrr` the mean of one over the
    rank of the first right entry (Voorhees 1999).
    """

    questions: int
    first: float
    mrr: float


def match_metrics(
    scores: Sequence[Sequence[float]], right: Sequence[Sequence[bool]]
) -> MatchMetrics:
    """The metrics of the scores of each question's entries, and of which of them are right.

    A wrong entry with the same score as a right one is ranked before it.

    >>> from regard.training.match_metrics import match_metrics
    >>> match_metrics([[0.9, 0.1], [0.9, 0.1]], [[True, False], [False, True]])
    MatchMetrics(questions=2, first=0.5, mrr=0.75)
    """
    if not scores or len(scores) != len(right):
        raise InputError(
            f"expected the scores of at least one question and as many answers, got {len(scores)} "
            f"and {len(right)}"
        )
    ranks = [_rank(*row) for row in zip(scores, right, strict=True)]
    first = sum(rank == 1 for rank in ranks) / len(ranks)
    return MatchMetrics(len(ranks), first, sum(1 / rank for rank in ranks) / len(ranks))


def _rank(scores: Sequence[float], right: Sequence[bool]) -> int:
    """The rank of the best right entry, from 1."""
    best = max(score for score, true in zip(scores, right, strict=True) if true)
    wrong = (score for score, true in zip(scores, right, strict=True) if not true)
    return 1 + sum(score >= best for score in wrong)
