"""Checks that run the model again on changed texts.

Two of them change what must not matter (later tokens of a causal model, padding); the other two
erase words, to test whether the words with the largest weights matter.
"""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.hits import quoted
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.studies.faithfulness import Faithfulness, Rankings, faithfulness
from regard.studies.leaks import Leak, causal_leak, padding_leak

WORDS = 4  # the fewest words of a text whose ranking is judged
SHUFFLES = 8  # shuffles that attention is compared with
NAMED = 5  # the most words that a sentence names
EFFECT = 0.02  # relative change of the output below which a word makes no difference


def _causal_leaks(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Outputs of a model declared causal that change when later tokens are exchanged."""
    declarations = [by for site in evidence.sites if (by := evidence.causal_by(site)) is not None]
    if declarations:
        yield from _largest_leak(evidence.studied(causal_leak), limit, {"by": declarations[0]})


def _padding_leaks(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Outputs for a text that change when the text is padded in a batch."""
    yield from _largest_leak(evidence.studied(padding_leak), limit, {})


def _largest_leak(leaks: dict[int, Leak], limit: Limit, words: dict[str, Any]) -> Iterator[Hit]:
    """The text whose output changed most, if the change crosses the limit."""
    crossed = {number: leak for number, leak in leaks.items() if limit.crossed(leak.largest)}
    if crossed:
        number = max(crossed, key=lambda text: crossed[text].largest)
        leak = crossed[number]
        words = words | {"row": leak.row, "change": leak.change}
        yield Hit(
            leak.largest,
            example=number,
            held=len(crossed),
            among=len(leaks),
            words=words,
        )


def attention_faithfulness(model: Any, processor: Any, text: Any) -> Faithfulness:
    """The faithfulness of the ranking by attention, compared with a few shuffles."""
    return faithfulness(model, processor, text, rankings=Rankings(["attention"], SHUFFLES))


def _faithfulness_by_text(evidence: Evidence) -> dict[int, Faithfulness]:
    """The faithfulness of attention for each text that has enough words."""
    results = evidence.studied(attention_faithfulness)
    return {
        number: result for number, result in results.items() if len(result.occlusion.texts) >= WORDS
    }


def _unexplained(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """A hit if the words with the largest weights matter no more than random words do."""
    results = _faithfulness_by_text(evidence)
    share_beaten = {number: result.share_beaten("attention") for number, result in results.items()}
    if share_beaten and limit.crossed(fmean(share_beaten.values())):
        agreement = [result.agreement["attention"].kendall for result in results.values()]
        known = [tau for tau in agreement if tau == tau]  # without NaN
        yield Hit(
            fmean(share_beaten.values()),
            example=min(share_beaten, key=lambda number: share_beaten[number]),
            held=sum(map(limit.crossed, share_beaten.values())),
            among=len(share_beaten),
            words={"agreement": fmean(known) if known else 0.0},
        )


def _irrelevant(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Words with several times the mean weight whose erasure hardly changes the output."""
    for number, result in _faithfulness_by_text(evidence).items():
        importance = result.curves["attention"].importance
        mean = importance.mean()
        effect = result.occlusion.effect / abs(result.full_value)
        irrelevant = [
            place
            for place in importance.argsort(descending=True).tolist()
            if limit.crossed(float(importance[place] / mean)) and abs(float(effect[place])) < EFFECT
        ]
        if irrelevant:
            words = [quoted(result.occlusion.texts[place]) for place in irrelevant]
            yield Hit(
                float(importance[irrelevant[0]] / mean),
                example=number,
                words={
                    "words": ", ".join(words[:NAMED]) + (" …" if len(words) > NAMED else ""),
                    "share": float(importance[irrelevant].sum()),
                    "effect": max(abs(float(effect[place])) for place in irrelevant),
                },
            )


CHECKS = (
    entry("leak-behaviour", "bug", _causal_leaks, cost="model"),
    entry("padding-behaviour", "bug", _padding_leaks, cost="model"),
    entry("unexplained", "observation", _unexplained, cost="model"),
    entry("irrelevant", "observation", _irrelevant, cost="model"),
)
