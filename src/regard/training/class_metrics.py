"""Metrics of a classifier: accuracy, F1 of each class, and the confusion matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError

__all__ = ["ClassMetrics", "class_metrics"]


@dataclass(frozen=True)
class ClassMetrics:
    """How well labels were predicted.

    `f1` has the F1 of each class, and `macro_f1` is their mean, in which rare classes count as much
    as frequent ones. `confusion[i][j]` is the number of texts of class i that were labelled j.
    """

    texts: int
    accuracy: float
    macro_f1: float
    f1: dict[str, float]
    confusion: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """The metrics as JSON types."""
        return {**vars(self), "confusion": [list(row) for row in self.confusion]}


def class_metrics(
    predicted: Sequence[int], gold: Sequence[int], names: Sequence[str]
) -> ClassMetrics:
    """The metrics of predicted classes against the true ones, both as indices into the names.

    >>> from regard.training.class_metrics import class_metrics
    >>> metrics = class_metrics([0, 1, 1], [0, 1, 0], ["bad", "good"])
    >>> round(metrics.accuracy, 3), metrics.confusion
    (0.667, ((1, 1), (0, 1)))
    """
    if not gold or len(predicted) != len(gold):
        raise InputError(
            f"expected as many predicted labels as true ones and at least one, got "
            f"{len(predicted)} and {len(gold)}"
        )
    counts = _count_pairs(gold, predicted, len(names))
    right, total = counts.diagonal(), counts.sum(0) + counts.sum(1)
    # a class that neither occurs nor is predicted has no F1, and does not count
    scores = torch.where(total > 0, 2 * right / total.clamp_min(1), torch.nan)
    return ClassMetrics(
        len(gold),
        float(right.sum() / len(gold)),
        float(scores.nanmean()),
        {name: float(score) for name, score in zip(names, scores, strict=True) if score == score},
        tuple(map(tuple, counts.tolist())),
    )


def _count_pairs(
    gold: Sequence[int], predicted: Sequence[int], classes: int
) -> Int[Tensor, "label label"]:
    """How often each pair of a true and a predicted class occurs."""
    pairs = torch.tensor(gold) * classes + torch.tensor(predicted)
    return torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes)
