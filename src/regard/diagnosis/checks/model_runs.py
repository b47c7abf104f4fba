"""Checks that run the model again: what should make no difference, and what should make some."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.hits import quoted
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.studies.faithfulness import Faithfulness, Rankings, faithfulness
from regard.studies.leaks import Leak, causal_leak, padding_leak

WORDS = 4  # that a text has at least, for their ranking to be judged
SHUFFLES = 8  # shuffles that attention is compared with
NAMED = 5  # words that a sentence names
EFFECT = 0.02  # of the output, below which a word makes no difference


def _leaking(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Models that are declared causal, or write by themselves, and are not causal."""
    declared = [by for site in evidence.sites if (by := evidence.causal_by(site)) is not None]
    if declared:
        yield from _worst(evidence.studied(causal_leak), limit, {"by": declared[0]})


def _padded(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    yield from _worst(evidence.studied(padding_leak), limit, {})


def _worst(found: dict[int, Leak], limit: Limit, words: dict[str, Any]) -> Iterator[Hit]:
    """The text whose output changed most, if it changed too much."""
    crossed = {number: leak for number, leak in found.items() if limit.crossed(leak.largest)}
    if crossed:
        number = max(crossed, key=lambda each: crossed[each].largest)
        leak = crossed[number]
        words = words | {"row": leak.row, "change": leak.change}
        yield Hit(
            leak.largest,
            example=number,
            held=len(crossed),
            among=len(found),
            words=words,
        )


def attention_faithfulness(model: Any, processor: Any, text: Any) -> Faithfulness:
    """How well attention alone explains what a model says of a text, beside a few shuffles."""
    return faithfulness(model, processor, text, rankings=Rankings(["attention"], SHUFFLES))


def _judged(evidence: Evidence) -> dict[int, Faithfulness]:
    found = evidence.studied(attention_faithfulness)
    return {number: each for number, each in found.items() if len(each.occlusion.texts) >= WORDS}


def _unexplained(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Whether words that are looked at most matter more than any others, over all texts."""
    found = _judged(evidence)
    share_beaten = {number: each.share_beaten("attention") for number, each in found.items()}
    if share_beaten and limit.crossed(fmean(share_beaten.values())):
        agreement = [each.agreement["attention"].kendall for each in found.values()]
        known = [each for each in agreement if each == each]
        yield Hit(
            fmean(share_beaten.values()),
            example=min(share_beaten, key=lambda number: share_beaten[number]),
            held=sum(map(limit.crossed, share_beaten.values())),
            among=len(share_beaten),
            words={"agreement": fmean(known) if known else 0.0},
        )


def _irrelevant(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Words with several times their share of the weight that the output hardly needs."""
    for number, each in _judged(evidence).items():
        scores = each.curves["attention"].importance
        fair = scores.mean()
        effect = each.occlusion.effect / abs(each.full_value)
        held = [
            place
            for place in scores.argsort(descending=True).tolist()
            if limit.crossed(float(scores[place] / fair)) and abs(float(effect[place])) < EFFECT
        ]
        if held:
            words = [quoted(each.occlusion.texts[place]) for place in held]
            yield Hit(
                float(scores[held[0]] / fair),
                example=number,
                words={
                    "words": ", ".join(words[:NAMED]) + (" …" if len(words) > NAMED else ""),
                    "share": float(scores[held].sum()),
                    "effect": max(abs(float(effect[place])) for place in held),
                },
            )


CHECKS = (
    entry("leak-behaviour", "bug", _leaking, cost="model"),
    entry("padding-behaviour", "bug", _padded, cost="model"),
    entry("unexplained", "observation", _unexplained, cost="model"),
    entry("irrelevant", "observation", _irrelevant, cost="model"),
)
