"""Occlusion: how much the output falls when one word at a time is erased."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import Eraser, ErasureOptions
from regard.attribution.objectives import Objective
from regard.types import Occlusion

DEFAULT_ERASURE = ErasureOptions()


def occlusion(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    objective: Objective | None = None,
    erasure: ErasureOptions = DEFAULT_ERASURE,
) -> Occlusion:
    """Leave one out: the output without each word (Zeiler and Fergus 2014; Li et al. 2016).

    The output is the probability of what the model predicts for the whole input, see
    `default_objective`, or what an `objective` of your own makes of it. It costs one pass for each
    word, 32 of them in a batch. There is no limit on the number of words. Some tokens are never
    erased, and `left_out` of the result lists them with the reason: special tokens, unless
    `erasure` has `special=True`, and tokens that the objective reads (the mask token whose
    prediction it is, and the last token if the objective is the next one, erased by "attention").

    >>> import torch
    >>> from regard.attribution import occlusion
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> found = occlusion(model, None, {"src": torch.randn(1, 5, 8)})
    >>> found.objective, found.by, found.effect.shape
    ('similarity', 'attention', torch.Size([5]))
    """
    run = CleanRun.of(model, processor, inputs, target=target, objective=objective)
    return occlude_each(Eraser(run, erasure))


def occlude_each(eraser: Eraser) -> Occlusion:
    """The output without each of an eraser's units."""
    run = eraser.run
    without = eraser.values([number] for number in range(len(eraser.units)))
    return Occlusion(
        run.objective.name,
        eraser.by,
        run.value,
        eraser.texts,
        tuple(map(tuple, eraser.units)),
        without,
        eraser.left_out,
    )


def token_occlusion(run: CleanRun) -> Float[Tensor, " token"]:
    """The fall of the output without each token; NaN for tokens that cannot be erased."""
    eraser = Eraser(run, ErasureOptions(words=False))
    values = torch.full((len(run.tokens),), torch.nan, dtype=torch.float64)
    for (position,), effect in zip(eraser.units, occlude_each(eraser).effect, strict=True):
        values[position] = effect
    return values
