"""Faults planted in the shipped translator while it is led along translations, for tests."""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

import regard
from regard.diagnosis import CHECKS, diagnose
from regard.tracing import AttentionCall, Edit
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding

ENCODER, DECODER = "encoder.layers.1.attention", "decoder.layers.1.attention"
CROSS = ("decoder.layers.0.cross", "decoder.layers.1.cross")
TEXTS = [
    "The weather was not good yesterday, so we stayed at home.",
    "She bought three books for her brother.",
    "Where is the nearest train station?",
]
TARGETS = ["昨天天气不好，所以我们待在家里。", "她给她弟弟买了三本书。", "最近的火车站在哪里？"]
SEEN = [check for check in CHECKS.values() if check.cost == "traces"]

Change = Callable[[Tensor, AttentionCall], Tensor]  # of the weights of all heads


@cache
def translator():
    """The shipped translator."""
    return regard.from_pretrained("en-zh-transformer")


def at(sites: str | Sequence[str], change: Change):
    """The edit that changes the weights at some sites."""
    named = (sites,) if isinstance(sites, str) else sites

    def edit(call: AttentionCall) -> Edit | None:
        return Edit(weights=change(call.weights().clone(), call)) if call.site in named else None

    return edit


def in_head(head: int, change: Change) -> Change:
    """A change of one head alone."""

    def one(weights: Tensor, call: AttentionCall) -> Tensor:
        weights[:, head] = change(weights, call)[:, head]
        return weights

    return one


def traced(edit=None, numbers: Sequence[int] = (0, 1, 2)) -> list[Trace]:
    """The traces of some of the texts, with a fault."""
    model = translator()
    targets = [TARGETS[n] for n in numbers]
    texts = [TEXTS[n] for n in numbers]
    return regard.capture(model, model.tokenizer, texts, target=targets, atlas=0, edit=edit)


def diagnosed(edit=None, numbers: Sequence[int] = (0, 1, 2), **known) -> list[Finding]:
    """What is found with a fault planted."""
    model = translator()
    traces = traced(edit, numbers)
    return diagnose(traces, model, processor=model.tokenizer, checks=SEEN, **known)


def the_one(findings: Sequence[Finding], check: str) -> Finding:
    """The finding of this check, which is the only alarm, or comes without any."""
    found = [each for each in findings if each.check == check]
    alarms = {each.check for each in findings if each.severity != "observation"}
    assert found, f"{check} is not among {[each.check for each in findings]}"
    assert alarms <= {check}
    return found[0]


def rank(severity: str) -> int:
    return SEVERITIES.index(severity)


def even(weights: Tensor, call: AttentionCall) -> Tensor:
    seen = call.seen().to(weights)
    return seen / seen.sum(dim=-1, keepdim=True).clamp_min(1)


def on_column(column: int) -> Change:
    def change(weights: Tensor, call: AttentionCall) -> Tensor:
        found = torch.zeros_like(weights)
        found[..., column] = 1
        return found

    return change
