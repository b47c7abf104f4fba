"""What each word does for an output: how much it falls when the word alone is erased."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.clean_run import Subject
from regard.attribution.erasing import By, Eraser, Erasing
from regard.attribution.objectives import Objective

Units = Float[Tensor, " unit"]
PLAINLY = Erasing()


@dataclass(frozen=True, eq=False)
class Occlusion:
    """An output without each of the words, one at a time.

    `judged` names what of the output is judged, `whole` is its value for the whole input, such as
    the probability of the next token. `units` are the places of each word's pieces.
    """

    judged: str
    by: By
    whole: float
    texts: tuple[str, ...]
    units: tuple[tuple[int, ...], ...]
    without: Units

    @property
    def effect(self) -> Units:
        """How much the output falls without each word; less than 0 where it rises."""
        return self.whole - self.without


@dataclass(frozen=True, eq=False)
class Focus:
    """The weight that each word holds beside what it does: `occlusion` has the words.

    `share` is that of all the weight, of which special tokens hold what is missing to one.
    """

    share: Units
    occlusion: Occlusion

    @property
    def effect(self) -> Units:
        """How much the output falls without each word, as a share of what it is."""
        return self.occlusion.effect / abs(self.occlusion.whole)


def occlusion(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    objective: Objective | None = None,
    how: Erasing = PLAINLY,
) -> Occlusion:
    """Leave one out: the output without each word (Zeiler and Fergus 2014; Li et al. 2016).

    What is judged is the probability of what the model says for the whole input: see `judge_of`;
    an `objective` makes another number of each example of what the model gives. It costs a pass
    for each word, 32 of them at a time.

    >>> import torch
    >>> from regard.attribution.occlusion import occlusion
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> found = occlusion(model, None, {"src": torch.randn(1, 5, 8)})
    >>> found.judged, found.by, found.effect.shape
    ('likeness', 'attention', torch.Size([5]))
    """
    subject = Subject.of(model, processor, inputs, target=target, objective=objective)
    return occluded(Eraser(subject, how))


def occluded(eraser: Eraser) -> Occlusion:
    """The output without each of an eraser's units."""
    subject = eraser.subject
    without = eraser.values([number] for number in range(len(eraser.units)))
    return Occlusion(
        subject.judge.name,
        eraser.by,
        subject.whole,
        eraser.texts,
        tuple(map(tuple, eraser.units)),
        without,
    )


def irrelevant_focus(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    objective: Objective | None = None,
    how: Erasing = PLAINLY,
    importance: Float[Tensor, " token"] | None = None,
) -> Focus:
    """The weight that each word holds, and how much the output falls without it.

    Words with much of the one and little of the other draw attention for nothing. The weight is
    the attention that leads to what is judged, as `Subject.attention` says, or `importance`: one
    number of each token, of which each gets its share.

    >>> import torch
    >>> from regard.attribution.occlusion import irrelevant_focus
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> found = irrelevant_focus(model, None, {"src": torch.randn(1, 5, 8)})
    >>> round(found.share.sum().item(), 6), found.effect.shape
    (1.0, torch.Size([5]))
    """
    subject = Subject.of(model, processor, inputs, target=target, objective=objective)
    eraser = Eraser(subject, how)
    weights = subject.attention() if importance is None else importance.double()
    return Focus(eraser.summed(weights / weights.sum()), occluded(eraser))
