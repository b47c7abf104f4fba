"""Interventions: edit a model's attention, and compare its loss and traces before and after."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.arguments import check_first_argument
from regard.attribution.clean_run import CleanRun
from regard.attribution.objectives import NamedObjective, TokenProbability
from regard.errors import InputError
from regard.studies.knockout import loss_objective
from regard.tracing import AttentionCall, Edit, knock_out
from regard.tracing.inputs.example import trace_example
from regard.tracing.recording.edits import EditAtSites, EditFunction, Patterns, check_heads
from regard.tracing.recording.site_choice import SiteChoice
from regard.types import Trace

__all__ = ["Comparison", "compare_edit", "knock_out", "mask_future", "set_temperature"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A model's loss and attention before and after an edit; the loss is a mean over the texts.

    `changed` is the share of rows whose most likely token, or class, is another. Where the model
    gives vectors instead of logits it is NaN, and the loss is one minus the similarity. The traces
    can be compared and drawn.
    """

    objective: str
    loss: tuple[float, float]
    changed: float
    before: tuple[Trace, ...]
    after: tuple[Trace, ...]

    def __str__(self) -> str:
        first, second = self.loss
        known = not math.isnan(self.changed)
        rows = f"; {self.changed:.0%} of rows predict another token" if known else ""
        return (
            f"loss of {self.objective} over {len(self.before)} texts: {first:.4f} before, "
            f"{second:.4f} after ({second - first:+.4f}){rows}"
        )


def compare_edit(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    edit: EditFunction | Sequence[EditFunction],
    *,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Run the model on each of the inputs as it is, and with an edit of its attention.

    The loss is that of the text itself for a causal model, of what an encoder-decoder wrote before
    the edit, and else of what the model predicted before it. `on_progress(done)` is called after
    each input.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies import compare_edit
    >>> from regard.tracing import knock_out
    >>> _ = torch.manual_seed(0)
    >>> sizes = {"vocab": 11, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> model, ids = Transformer(kind="decoder", **sizes), torch.tensor([[5, 6, 7, 8]])
    >>> result = compare_edit(model, None, {"input_ids": ids}, knock_out("*", heads=[1]))
    >>> result.objective, result.loss[0] != result.loss[1], len(result.after)
    ('text', True, 1)
    """
    texts = [inputs] if isinstance(inputs, str) or not isinstance(inputs, Sequence) else inputs
    if not texts:
        raise InputError("compare_edit expected at least one text, got none")
    numbers, traces = list[tuple[float, float, float]](), list[tuple[Trace, Trace]]()
    name = ""
    for number, text in enumerate(texts):
        run = CleanRun.of(model, processor, text)
        objective = loss_objective(run)
        (clean, before), (edited, after) = (
            trace_example(model, run.example, edit=change) for change in (None, edit)
        )
        losses = (_loss(objective, clean), _loss(objective, edited))
        numbers.append((*losses, _changed_share(objective, clean, edited)))
        traces.append((before, after))
        name = objective.name
        on_progress(number + 1)
    first, second, changed = torch.tensor(numbers, dtype=torch.float64).mean(dim=0).tolist()
    befores, afters = zip(*traces, strict=True)
    return Comparison(name, (first, second), changed, befores, afters)


@check_first_argument
def set_temperature(
    sites: Patterns, temperature: float, heads: Sequence[int] | None = None
) -> EditAtSites:
    """An edit that divides the scores of heads by a temperature: above 1 spreads their weights.

    >>> from regard.studies.interventions import set_temperature
    >>> set_temperature("*.h.5.*", 2.0).sites.includes("model.h.5.attn")
    True
    """
    if not temperature > 0:
        raise InputError(f"set_temperature expected a temperature above 0, got {temperature}")
    return EditAtSites(SiteChoice.of(sites), partial(_apply_temperature, 1 / temperature, heads))


@check_first_argument
def mask_future(sites: Patterns, heads: Sequence[int] | None = None) -> EditAtSites:
    """An edit that hides later tokens from heads; their weight goes to the others in proportion."""
    return EditAtSites(SiteChoice.of(sites), partial(_apply_causal_mask, heads))


def _apply_temperature(power: float, heads: Sequence[int] | None, call: AttentionCall) -> Edit:
    """The edit that raises the weights of heads to `power`, one over the temperature."""
    # softmax(scores / t) is proportional to softmax(scores) ** (1 / t)
    weights = _weights_of(call, heads).pow(power)
    return Edit(heads, weights=_normalise_rows(weights))


def _apply_causal_mask(heads: Sequence[int] | None, call: AttentionCall) -> Edit:
    """The edit that sets the weights of heads on later keys to zero."""
    _, _, queries, keys = call.sizes
    # while decoding with a cache, the queries are the last of the keys
    offset = keys - queries if call.scoring is None else call.scoring.offset
    return Edit(heads, weights=_normalise_rows(_weights_of(call, heads).tril(offset)))


def _weights_of(call: AttentionCall, heads: Sequence[int] | None) -> Tensor:
    """The weights of these heads in a call, of all heads for None."""
    return call.weights()[:, check_heads(call, heads)]


def _normalise_rows(weights: Tensor) -> Tensor:
    """The weights with rows that sum to one; a row of zeros stays so."""
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def _loss(objective: NamedObjective, output: Any) -> float:
    """The mean negative log-probability, or one minus the similarity where there are no logits."""
    if isinstance(objective, TokenProbability):
        return -float(objective.log_probabilities(objective.logits(output)).mean())
    return 1 - float(objective(output)[0])


def _changed_share(objective: NamedObjective, clean: Any, edited: Any) -> float:
    """The share of rows whose most likely token changes; NaN where there are no logits."""
    if not isinstance(objective, TokenProbability):
        return float("nan")
    before, after = (objective.logits(output).argmax(dim=-1) for output in (clean, edited))
    return float((before != after).double().mean())
