"""Does a ranking of words explain the output? The highest are erased, or kept alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.clean_run import Subject
from regard.attribution.erasing import By, Eraser, Erasing
from regard.attribution.gradients import input_saliency
from regard.attribution.objectives import Objective
from regard.attribution.occlusion import PLAINLY, Occlusion, occluded
from regard.errors import InputError, ShapeError, UnknownNameError
from regard.measures.faithfulness import (
    SHARES,
    area_over_curve,
    comprehensiveness,
    kendall,
    ranking,
    sizes_of,
    spearman,
    sufficiency,
)
from regard.types import Trace

Steps = Float[Tensor, " step"]
Importance = Float[Tensor, " token"] | Callable[[Trace], Tensor]

STEPS = 16  # of a curve at most


@dataclass(frozen=True, eq=False)
class Rankings:
    """What is compared beside occlusion: scores of each token by name, and shuffles.

    Scores may be functions that make them of a trace, or names alone: "attention", the head mean
    of the last layer, "rollout" over all layers, "gradient" for gradient x input. None are all
    three, rollout where layers are several, and gradient where the model gives gradients.
    """

    scores: Mapping[str, Importance] | Sequence[str] | None = None
    draws: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        names = () if self.scores is None or isinstance(self.scores, Mapping) else self.scores
        for name in names:
            if name not in _KNOWN:
                raise UnknownNameError("ranking", name, _KNOWN)
        if self.draws < 1:
            raise InputError(f"expected at least one shuffle to compare with, got {self.draws}")


USUAL = Rankings()


@dataclass(frozen=True, eq=False)
class Curves:
    """What became of the output as words were erased in the order of their scores, or kept alone.

    `without` and `alone` have the value after each number of words of `sizes`.
    """

    scores: Float[Tensor, " unit"]
    sizes: tuple[int, ...]
    without: Steps
    alone: Steps
    comprehensiveness: float
    """The area over the bins of DeYoung et al. 2020, 1 to 50% of the words: high is faithful."""
    sufficiency: float
    """The same with the words alone: low is faithful."""
    area: float
    """The area over the whole curve of erasure, all of `sizes` (Samek et al. 2017)."""


@dataclass(frozen=True)
class RankAgreement:
    """How well a ranking agrees with that by occlusion, -1 to 1; NaN where one has only ties."""

    kendall: float
    spearman: float


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Rankings of the words of one example, judged by erasing.

    `curves` has those that were asked for and "occlusion"; `random` those of shuffled words.
    """

    occlusion: Occlusion
    curves: Mapping[str, Curves]
    random: tuple[Curves, ...]
    agreement: Mapping[str, RankAgreement]

    @property
    def judged(self) -> str:
        """What of the output is judged."""
        return self.occlusion.judged

    @property
    def by(self) -> By:
        """How words were erased."""
        return self.occlusion.by

    @property
    def whole(self) -> float:
        """The value for the whole input."""
        return self.occlusion.whole

    def chance(self, number: str = "comprehensiveness") -> tuple[float, float]:
        """The mean and the standard deviation of a number of `Curves` over the shuffled words."""
        found = torch.tensor([getattr(each, number) for each in self.random], dtype=torch.float64)
        return float(found.mean()), float(found.std(correction=0))

    def beats(self, name: str) -> float:
        """The share of shuffles that a ranking is more comprehensive than, ties as halves."""
        own = self.curves[name].comprehensiveness
        found = [each.comprehensiveness for each in self.random]
        return sum((own > each) + (own == each) / 2 for each in found) / len(found)


def faithfulness(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    objective: Objective | None = None,
    how: Erasing = PLAINLY,
    rankings: Rankings = USUAL,
) -> Faithfulness:
    """How well attention and other rankings of words explain what a model says of an input.

    The words that are ranked highest are erased, then kept alone, and the output is judged
    (DeYoung et al. 2020), beside shuffled words and beside the ranking that leaving out one word
    gives (Jain and Wallace 2019 compare with both). What is judged is the probability of what the
    model says for the whole input: see `judge_of`. It costs up to 32 passes for each ranking and
    shuffle, in batches of 32.

    >>> import torch
    >>> from regard.studies.faithfulness import Rankings, faithfulness
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> inputs, mine = {"src": torch.randn(1, 5, 8)}, {"mine": torch.arange(5.0)}
    >>> found = faithfulness(model, None, inputs, rankings=Rankings(mine, draws=3))
    >>> sorted(found.curves), len(found.random), found.curves["mine"].sizes
    (['mine', 'occlusion'], 3, (1, 2, 3, 4))
    """
    subject = Subject.of(model, processor, inputs, target=target, objective=objective)
    eraser = Eraser(subject, how)
    left_out = occluded(eraser)
    scores = {name: eraser.summed(each) for name, each in _scored(subject, rankings).items()}
    scores["occlusion"] = left_out.effect
    generator = torch.Generator().manual_seed(rankings.seed)
    count = len(eraser.units)
    shuffled = [torch.randperm(count, generator=generator).double() for _ in range(rankings.draws)]
    return Faithfulness(
        left_out,
        {name: curves(eraser, each) for name, each in scores.items()},
        tuple(curves(eraser, each) for each in shuffled),
        {
            name: RankAgreement(kendall(each, left_out.effect), spearman(each, left_out.effect))
            for name, each in scores.items()
            if name != "occlusion"
        },
    )


def curves(eraser: Eraser, scores: Float[Tensor, " unit"]) -> Curves:
    """What becomes of the output as an eraser takes the units in the order of their scores."""
    order, whole = ranking(scores), eraser.subject.whole
    sizes, bins = sizes_to_erase(len(order))
    without = eraser.values(order[:size] for size in sizes)
    alone = eraser.values(order[size:] for size in sizes)
    kept = [sizes.index(size) for size in bins]
    falls = comprehensiveness(whole, without)
    return Curves(
        scores,
        sizes,
        without,
        alone,
        float(area_over_curve(falls[kept])),
        float(area_over_curve(sufficiency(whole, alone)[kept])),
        float(area_over_curve(falls)),
    )


def sizes_to_erase(count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many units are erased at each step of a curve, and at which of them the bins are.

    Never all of them, unless there is but one: without any word all rankings are alike.

    >>> from regard.studies.faithfulness import sizes_to_erase
    >>> sizes_to_erase(4)
    ((1, 2, 3), (1, 2))
    """
    most = max(1, count - 1)
    bins = tuple(size for size in sizes_of(SHARES, count) if size <= most)
    even = {round(1 + step * (most - 1) / (STEPS - 1)) for step in range(STEPS)}
    return tuple(sorted(even | {*bins})), bins


def _scored(subject: Subject, rankings: Rankings) -> dict[str, Tensor]:
    if rankings.scores is None:
        return _usual(subject)
    if not isinstance(rankings.scores, Mapping):
        return {name: _KNOWN[name](subject) for name in rankings.scores}
    found, count = {}, len(subject.tokens)
    for name, given in rankings.scores.items():
        scores = given if isinstance(given, Tensor) else given(subject.trace)
        if not isinstance(scores, Tensor) or scores.shape != (count,):
            came = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise ShapeError(
                f"expected the ranking {name!r} to have a score for each of {count} tokens, got "
                f"{came}"
            )
        found[name] = scores
    return found


def _usual(subject: Subject) -> dict[str, Tensor]:
    """Every ranking that the model has."""
    found = {"attention": subject.attention()}
    if len(subject.trace) > 1:
        found["rollout"] = subject.rolled_out()
    try:
        found["gradient"] = _gradient(subject)
    except (InputError, RuntimeError):  # no table of embeddings, or a step that has no gradient
        return found
    return {name: each for name, each in found.items() if bool(each.isfinite().all())}


def _gradient(subject: Subject) -> Float[Tensor, " token"]:
    """Gradient x input of what is judged."""
    arguments = dict(subject.example.arguments)
    return input_saliency(subject.model, None, arguments, lambda out: subject.judge(out)[0])


_KNOWN: dict[str, Callable[[Subject], Tensor]] = {
    "attention": Subject.attention,
    "rollout": Subject.rolled_out,
    "gradient": _gradient,
}
