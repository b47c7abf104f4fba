"""Exact match and F1 of answers, as the evaluations of SQuAD and of CMRC 2018 count them."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.unicode import HAN_CHARACTER

__all__ = ["AnswerMetrics", "answer_metrics", "cmrc_f1", "squad_f1"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WORDS = re.compile(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+")


@dataclass(frozen=True)
class AnswerMetrics:
    """The share of answers that match a true one exactly, and the mean F1 with the best of them.

    `way` is how they were counted: "squad" (Rajpurkar et al. 2016), by words, or "cmrc" (Cui et al.
    2019), by Chinese characters.
    """

    questions: int
    exact: float
    f1: float
    way: str


def answer_metrics(
    predicted: Sequence[str | None], gold: Sequence[Sequence[str]], way: str | None = None
) -> AnswerMetrics:
    """Exact match and F1, in percent, of answers against the true answers of each question.

    None is "no answer", which is right where a question has no true answer. Without a `way` it is
    "cmrc" if most true answers have Chinese characters, else "squad".

    >>> from regard.training.answer_metrics import answer_metrics
    >>> answer_metrics(["the Eiffel tower", None], [["Eiffel Tower"], []])
    AnswerMetrics(questions=2, exact=100.0, f1=100.0, way='squad')
    """
    if not gold or len(predicted) != len(gold):
        raise InputError(
            f"expected an answer to each question and at least one, got {len(predicted)} answers "
            f"and {len(gold)} questions"
        )
    way = way or guess_way(gold)
    f1, normalise = (cmrc_f1, _normalise_chinese) if way == "cmrc" else (squad_f1, _normalise)
    pairs = list(zip(predicted, gold, strict=True))
    exact = sum(
        _best(answer, true, lambda a, b: normalise(a) == normalise(b)) for answer, true in pairs
    )
    overlap = sum(_best(answer, true, f1) for answer, true in pairs)
    return AnswerMetrics(len(gold), 100 * exact / len(gold), 100 * overlap / len(gold), way)


def guess_way(gold: Sequence[Sequence[str]]) -> str:
    """The way to count: "cmrc" if most true answers have Chinese characters, else "squad"."""
    answers = [answer for true in gold for answer in true[:1]]
    chinese = sum(HAN_CHARACTER.search(answer) is not None for answer in answers)
    return "cmrc" if 2 * chinese > len(answers) else "squad"


def answer_f1(predicted: str | None, gold: Sequence[str], way: str) -> float:
    """The F1 of one answer with the best of the true ones, from 0 to 1."""
    return _best(predicted, gold, cmrc_f1 if way == "cmrc" else squad_f1)


def _best(
    predicted: str | None, gold: Sequence[str], compare: Callable[[str, str], float]
) -> float:
    """The largest value over the true answers; 1 if both sides say that there is none."""
    if predicted is None or not gold:
        return float(predicted is None and not gold)
    return max(float(compare(predicted, answer)) for answer in gold)


def squad_f1(predicted: str, gold: str) -> float:
    """F1 over words without case, articles and punctuation (Rajpurkar et al. 2016, section 6.1)."""
    ours, theirs = _normalise(predicted).split(), _normalise(gold).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def cmrc_f1(predicted: str, gold: str) -> float:
    """F1 over the longest common run of Chinese characters and words (Cui et al. 2019)."""
    ours, theirs = (_WORDS.findall(_normalise_chinese(text)) for text in (predicted, gold))
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * _longest_common_run(ours, theirs) / (len(ours) + len(theirs))


def _normalise(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces."""
    bare = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def _normalise_chinese(text: str) -> str:
    """Lower case, without punctuation of any script."""
    kept = (each for each in text.lower() if not unicodedata.category(each).startswith(("P", "S")))
    return " ".join("".join(kept).split())


def _longest_common_run(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest run of units that both sequences have."""
    longest, row = 0, [0] * (len(second) + 1)
    for unit in first:
        # row[j] is the length of the common run that ends with unit and second[j - 1]
        row = [0] + [row[j] + 1 if unit == other else 0 for j, other in enumerate(second)]
        longest = max(longest, *row)
    return longest
