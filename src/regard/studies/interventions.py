"""A change of attention tried on texts: what it does to the output, before and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attribution.clean_run import Subject
from regard.attribution.objectives import Said
from regard.errors import InputError
from regard.studies.knockout import reference
from regard.tracing import AttentionCall, Edit, knock_out
from regard.tracing.inputs.example import look
from regard.tracing.recording.edits import EditAtSites, EditFunction, Patterns, check_heads
from regard.tracing.recording.site_choice import SiteChoice
from regard.types import Trace

__all__ = ["Trial", "backwards_only", "knock_out", "softened", "trial"]


@dataclass(frozen=True, eq=False)
class Trial:
    """What a model gave and where it looked, before and after a change; means over the texts.

    `changed` is the share of rows whose likeliest token, or class, is another, NaN where the model
    gives vectors: then the loss is one less the likeness. The traces can be compared and drawn.
    """

    judged: str
    loss: tuple[float, float]
    changed: float
    before: tuple[Trace, ...]
    after: tuple[Trace, ...]

    def __str__(self) -> str:
        first, second = self.loss
        rows = "" if self.changed != self.changed else f"; {self.changed:.0%} of rows say another"
        return (
            f"loss of {self.judged} over {len(self.before)} texts: {first:.4f} before, "
            f"{second:.4f} after ({second - first:+.4f}){rows}"
        )


def trial(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    edit: EditFunction | Sequence[EditFunction],
    *,
    told: Callable[[int], None] = lambda done: None,
) -> Trial:
    """The model on each of the inputs as it is, and with an edit of its attention.

    What is judged is the text itself for a causal model, what an encoder-decoder wrote before, and
    else what the model said before. `told` hears how many inputs are done.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies.interventions import trial
    >>> from regard.tracing import knock_out
    >>> _ = torch.manual_seed(0)
    >>> sizes = {"vocab": 11, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> model, ids = Transformer(kind="decoder", **sizes), torch.tensor([[5, 6, 7, 8]])
    >>> found = trial(model, None, {"input_ids": ids}, knock_out("*", heads=[1]))
    >>> found.judged, found.loss[0] != found.loss[1], len(found.after)
    ('text', True, 1)
    """
    texts = [inputs] if isinstance(inputs, str) or not isinstance(inputs, Sequence) else inputs
    if not texts:
        raise InputError("trial expected at least one text, got none")
    found, traces, judged = list[tuple[float, float, float]](), list[tuple[Trace, Trace]](), ""
    for number, text in enumerate(texts):
        subject = Subject.of(model, processor, text)
        judge = reference(subject)
        (one, before), (other, after) = (
            look(model, subject.example, edit=each) for each in (None, edit)
        )
        found.append((_loss(judge, one), _loss(judge, other), _changed(judge, one, other)))
        traces.append((before, after))
        judged = judge.name
        told(number + 1)
    first, second, changed = torch.tensor(found, dtype=torch.float64).mean(dim=0).tolist()
    befores, afters = zip(*traces, strict=True)
    return Trial(judged, (first, second), changed, befores, afters)


def softened(
    sites: Patterns, temperature: float, heads: Sequence[int] | None = None
) -> EditAtSites:
    """Heads whose scores are divided by a temperature: above 1 they look around more.

    >>> from regard.studies.interventions import softened
    >>> softened("*.h.5.*", 2.0).sites.fits("model.h.5.attn")
    True
    """
    if not temperature > 0:
        raise InputError(f"softened expected a temperature above 0, got {temperature}")
    return EditAtSites(SiteChoice.of(sites), partial(_softened, 1 / temperature, heads))


def backwards_only(sites: Patterns, heads: Sequence[int] | None = None) -> EditAtSites:
    """Heads that see no later token: what they gave to these goes to the others in proportion."""
    return EditAtSites(SiteChoice.of(sites), partial(_backwards, heads))


def _softened(power: float, heads: Sequence[int] | None, call: AttentionCall) -> Edit:
    weights = _own(call, heads).pow(power)
    return Edit(heads, weights=_whole(weights))


def _backwards(heads: Sequence[int] | None, call: AttentionCall) -> Edit:
    _, _, queries, keys = call.sizes
    offset = keys - queries if call.scoring is None else call.scoring.offset
    return Edit(heads, weights=_whole(_own(call, heads).tril(offset)))


def _own(call: AttentionCall, heads: Sequence[int] | None) -> Tensor:
    return call.weights()[:, check_heads(call, heads)]


def _whole(weights: Tensor) -> Tensor:
    """Rows that sum to one again; one that is empty stays so."""
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def _loss(judge: Any, output: Any) -> float:
    if isinstance(judge, Said):
        return -float(judge.log_probabilities(judge.logits(output)).mean())
    return 1 - float(judge(output)[0])


def _changed(judge: Any, one: Any, other: Any) -> float:
    if not isinstance(judge, Said):
        return float("nan")
    said, now = (judge.logits(each).argmax(dim=-1) for each in (one, other))
    return float((said != now).double().mean())
