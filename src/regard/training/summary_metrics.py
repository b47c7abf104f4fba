"""Metrics of summaries: ROUGE-1, ROUGE-2 and ROUGE-L, computed by rouge-score."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.errors import InputError, RegardError
from regard.unicode import HAN_CHARACTER

__all__ = ["RougeScores", "mean_rouge", "rouge_scores"]


class RougeScores(NamedTuple):
    """ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004): F1 in percent of words, word pairs and order."""

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815  the name that the field uses

    @property
    def mean(self) -> float:
        """The mean of the three."""
        return sum(self) / len(self)


def rouge_scores(outputs: Sequence[str], references: Sequence[str]) -> list[RougeScores]:
    """The scores of each summary against its reference.

    Words are runs of letters a-z and digits in lower case, and their stems are compared, as
    rouge-score does with use_stemmer=True; a Chinese character is a word.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise RegardError(
            "scoring summaries needs rouge-score; install it with: pip install 'regard[train]'"
        ) from error
    if len(outputs) != len(references) or not outputs:
        raise InputError(
            f"expected as many summaries as references and at least one, got {len(outputs)} and "
            f"{len(references)}"
        )
    names = list(RougeScores._fields)
    scorer: Any = RougeScorer(names, use_stemmer=True, tokenizer=_Words())
    scored = (scorer.score(r, o) for o, r in zip(outputs, references, strict=True))
    return [RougeScores(*(100 * scores[name].fmeasure for name in names)) for scores in scored]


def mean_rouge(scores: Sequence[RougeScores]) -> RougeScores:
    """The mean of the scores of several summaries."""
    return RougeScores(*(sum(column) / len(scores) for column in zip(*scores, strict=True)))


class _Words:
    """Splits texts into words by rouge-score's own rule, and Chinese into characters."""

    def __init__(self) -> None:
        from rouge_score.tokenizers import DefaultTokenizer

        self._default: Any = DefaultTokenizer(use_stemmer=True)

    def tokenize(self, text: str) -> list[str]:
        """The words of a text in their order."""
        words: list[str] = []
        for part in HAN_CHARACTER.sub(lambda match: f"\0{match[0]}\0", text).split("\0"):
            words += [part] if HAN_CHARACTER.fullmatch(part) else self._default.tokenize(part)
        return words
