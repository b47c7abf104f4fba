"""Faithfulness: whether rankings of words explain the output, tested by erasing those words.

The words that a method ranks highest are erased one after another, or kept alone, and the value of
the objective is recorded each time. A ranking is faithful if the output falls quickly without its
first words (comprehensiveness), and hardly falls with them alone (sufficiency). Shuffled words and
the ranking by occlusion are the comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.attention import last_layer_attention
from regard.attribution.attribute import ATTRIBUTION_METHODS
from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import Eraser, ErasureOptions
from regard.attribution.objectives import Objective
from regard.attribution.occlusion import DEFAULT_ERASURE, occlude_each
from regard.errors import InputError, ShapeError, UnknownNameError
from regard.measures.faithfulness import (
    SHARES,
    area_over_curve,
    bin_sizes,
    comprehensiveness,
    kendall,
    ranking,
    spearman,
    sufficiency,
)
from regard.types import Occlusion, Trace
from regard.types.attribution import ErasureMethod

Steps = Float[Tensor, " step"]
Importance = Float[Tensor, " token"] | Callable[[Trace], Tensor]

STEPS = 16  # the most steps of a curve
# Occlusion is always computed; flow, value norms and relevance only if they are named.
USUAL_METHODS = ("attention", "rollout", "gradient")
NAMED_METHODS = tuple(name for name in ATTRIBUTION_METHODS if name != "occlusion")


@dataclass(frozen=True, eq=False)
class Rankings:
    """What is compared with occlusion: rankings by importance, and how many shuffles.

    `importance` maps the name of a ranking to one number per token, or to a function that computes
    them from a trace; or it lists attribution methods, such as ["attention", "rollout"]. None
    stands for "attention", for "rollout" if the model has several layers, and for "gradient" if it
    gives gradients.
    """

    importance: Mapping[str, Importance] | Sequence[str] | None = None
    shuffles: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        named = not (self.importance is None or isinstance(self.importance, Mapping))
        for name in self.importance or () if named else ():
            if name not in NAMED_METHODS:
                raise UnknownNameError("ranking", name, NAMED_METHODS)
        if self.shuffles < 1:
            raise InputError(f"expected at least one shuffle to compare with, got {self.shuffles}")


USUAL_RANKINGS = Rankings()


@dataclass(frozen=True, eq=False)
class ErasureCurves:
    """The output while words are erased in the order of their importance, or kept alone.

    `without` and `alone` have the value after each number of words in `sizes`.
    """

    importance: Float[Tensor, " unit"]
    sizes: tuple[int, ...]
    without: Steps
    alone: Steps
    comprehensiveness: float
    """The area over the bins of DeYoung et al. 2020, 1 to 50% of the words: high is faithful."""
    sufficiency: float
    """The same with the words alone: low is faithful."""
    area: float
    """The area over the whole erasure curve, all of `sizes` (Samek et al. 2017)."""


@dataclass(frozen=True)
class RankAgreement:
    """How well a ranking agrees with that by occlusion, -1 to 1; NaN where one has only ties."""

    kendall: float
    spearman: float


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """The erasure curves of several rankings of one example's words.

    `curves` has the chosen rankings and "occlusion"; `random` has the curves of shuffled words.
    """

    occlusion: Occlusion
    curves: Mapping[str, ErasureCurves]
    random: tuple[ErasureCurves, ...]
    agreement: Mapping[str, RankAgreement]

    @property
    def objective(self) -> str:
        """The name of the output that is explained, such as "next token"."""
        return self.occlusion.objective

    @property
    def by(self) -> ErasureMethod:
        """How words were erased."""
        return self.occlusion.by

    @property
    def full_value(self) -> float:
        """The value of the objective for the whole input."""
        return self.occlusion.full_value

    def chance(self, number: str = "comprehensiveness") -> tuple[float, float]:
        """The mean and standard deviation over the shuffles of a number of `ErasureCurves`."""
        values = [getattr(curves, number) for curves in self.random]
        tensor = torch.tensor(values, dtype=torch.float64)
        return float(tensor.mean()), float(tensor.std(correction=0))

    def share_beaten(self, name: str) -> float:
        """The share of shuffles that a ranking is more comprehensive than; ties count half."""
        own = self.curves[name].comprehensiveness
        others = [curves.comprehensiveness for curves in self.random]
        return sum((own > other) + (own == other) / 2 for other in others) / len(others)


@dataclass(frozen=True, eq=False)
class AttentionEffect:
    """The attention that each word gets beside the effect of erasing it; `occlusion` has the words.

    `share` is each word's share of all attention; the rest, up to one, is on special tokens.
    """

    share: Float[Tensor, " unit"]
    occlusion: Occlusion

    @property
    def effect(self) -> Float[Tensor, " unit"]:
        """How much the output falls without each word, relative to its full value."""
        return self.occlusion.effect / abs(self.occlusion.full_value)


def faithfulness(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    objective: Objective | None = None,
    erasure: ErasureOptions = DEFAULT_ERASURE,
    rankings: Rankings = USUAL_RANKINGS,
) -> Faithfulness:
    """How well attention and other rankings of words explain the output for an input.

    The highest-ranked words are erased, then kept alone (DeYoung et al. 2020), beside shuffled
    words and beside the ranking by leaving out one word (Jain and Wallace 2019 compare with both).
    The output is the probability of what the model predicts for the whole input, see
    `attribution.objectives.default_objective`. It costs up to 32 passes for each ranking and each
    shuffle, in batches of 32.

    >>> import torch
    >>> from regard.studies import Rankings, faithfulness
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> inputs, mine = {"src": torch.randn(1, 5, 8)}, {"mine": torch.arange(5.0)}
    >>> result = faithfulness(model, None, inputs, rankings=Rankings(mine, shuffles=3))
    >>> sorted(result.curves), len(result.random), result.curves["mine"].sizes
    (['mine', 'occlusion'], 3, (1, 2, 3, 4))
    """
    run = CleanRun.of(model, processor, inputs, target=target, objective=objective)
    eraser = Eraser(run, erasure)
    occlusion = occlude_each(eraser)
    importance = {
        name: eraser.sum_over_pieces(values) for name, values in _importance(run, rankings).items()
    }
    importance["occlusion"] = occlusion.effect
    generator = torch.Generator().manual_seed(rankings.seed)
    count = len(eraser.units)
    shuffles = [
        torch.randperm(count, generator=generator).double() for _ in range(rankings.shuffles)
    ]
    return Faithfulness(
        occlusion,
        {name: erasure_curves(eraser, values) for name, values in importance.items()},
        tuple(erasure_curves(eraser, values) for values in shuffles),
        {
            name: RankAgreement(
                kendall(values, occlusion.effect), spearman(values, occlusion.effect)
            )
            for name, values in importance.items()
            if name != "occlusion"
        },
    )


def attention_effect(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    objective: Objective | None = None,
    erasure: ErasureOptions = DEFAULT_ERASURE,
    importance: Float[Tensor, " token"] | None = None,
) -> AttentionEffect:
    """The attention that each word gets, and how much the output falls without it.

    A word with much attention and little effect shows that attention is no explanation there. The
    attention is that of the last layer, or any other `importance` of each token, divided by its
    sum.

    >>> import torch
    >>> from regard.studies import attention_effect
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> result = attention_effect(model, None, {"src": torch.randn(1, 5, 8)})
    >>> round(result.share.sum().item(), 6), result.effect.shape
    (1.0, torch.Size([5]))
    """
    run = CleanRun.of(model, processor, inputs, target=target, objective=objective)
    eraser = Eraser(run, erasure)
    weights = last_layer_attention(run) if importance is None else importance.double()
    return AttentionEffect(eraser.sum_over_pieces(weights / weights.sum()), occlude_each(eraser))


def erasure_curves(eraser: Eraser, importance: Float[Tensor, " unit"]) -> ErasureCurves:
    """The output while units are erased, or kept alone, in the order of their importance."""
    order, full = ranking(importance), eraser.run.value
    sizes, bins = erasure_sizes(len(order))
    without = eraser.values(order[:size] for size in sizes)
    # erasing all units but the first ones leaves these alone
    alone = eraser.values(order[size:] for size in sizes)
    at_bins = [sizes.index(size) for size in bins]
    falls = comprehensiveness(full, without)
    return ErasureCurves(
        importance,
        sizes,
        without,
        alone,
        float(area_over_curve(falls[at_bins])),
        float(area_over_curve(sufficiency(full, alone)[at_bins])),
        float(area_over_curve(falls)),
    )


def erasure_sizes(count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many units are erased at each step of a curve, and which of the steps are bins.

    Never all of them, unless there is only one: without any word all rankings are alike.

    >>> from regard.studies.faithfulness import erasure_sizes
    >>> erasure_sizes(4)
    ((1, 2, 3), (1, 2))
    """
    most = max(1, count - 1)
    bins = tuple(size for size in bin_sizes(SHARES, count) if size <= most)
    even = {round(1 + step * (most - 1) / (STEPS - 1)) for step in range(STEPS)}
    return tuple(sorted(even | {*bins})), bins


def _importance(run: CleanRun, rankings: Rankings) -> dict[str, Tensor]:
    """The importance of each token by the name of its ranking."""
    if rankings.importance is None:
        return _usual_importance(run)
    if not isinstance(rankings.importance, Mapping):
        return {name: ATTRIBUTION_METHODS[name].explain(run) for name in rankings.importance}
    importance, count = {}, len(run.tokens)
    for name, source in rankings.importance.items():
        values = source if isinstance(source, Tensor) else source(run.trace)
        if not isinstance(values, Tensor) or values.shape != (count,):
            came = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ShapeError(
                f"expected the ranking {name!r} to have a score for each of {count} tokens, got "
                f"{came}"
            )
        importance[name] = values
    return importance


def _usual_importance(run: CleanRun) -> dict[str, Tensor]:
    """The rankings by those of the usual methods that the model allows."""
    names = [name for name in USUAL_METHODS if name != "rollout" or len(run.trace) > 1]
    importance = dict[str, Tensor]()
    for name in names:
        try:
            importance[name] = ATTRIBUTION_METHODS[name].explain(run)
        except (InputError, RuntimeError):
            if name != "gradient":
                raise
            # the model has no embedding, or a step without a gradient: leave this ranking out
            return importance
    return {name: values for name, values in importance.items() if bool(values.isfinite().all())}
