"""Checks of a translation: source words that were never looked at, or again and again."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.hits import quoted
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.measures.decoding import coverage
from regard.measures.token_kinds import PLAIN, token_kinds
from regard.types import AttentionMap, SummaryOnly, Tokens, Trace
from regard.unicode import HAN_OR_KANA_CHARACTER

WIDER = "regard.capture(model, processor, texts[{example}], generate={{'num_beams': 8}})"
PENALISED = (
    "regard.capture(model, processor, texts[{example}], generate={{'repetition_penalty': 1.3}})"
)
WORDS, ROWS = 3, 4  # that a source and a translation have at least
FEW = 1 / 3  # of the words, at most, that are called dropped
NAMED = 5  # words that a sentence names
SHOWN = 40  # characters of a translation that it shows


def _dropped(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for number, maps in evidence.crossing():
        found = word_coverage(evidence.traces[number], maps)
        low = sorted((float(each.sum()), unit) for unit, each in found.items())
        low = [one for one in low if limit.crossed(one[0])]
        # where most words have nothing, a head is at fault and not what was written
        if 0 < len(low) <= FEW * len(found):
            yield _hit(evidence, number, maps, low)


def _repeated(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for number, maps in evidence.crossing():
        found = word_coverage(evidence.traces[number], maps)
        high = sorted(((float(each.max()), unit) for unit, each in found.items()), reverse=True)
        high = [one for one in high if limit.crossed(one[0])]
        if high:
            yield _hit(evidence, number, maps, high)


Unit = tuple[int, ...]


def word_coverage(trace: Trace, maps: list[AttentionMap]) -> dict[Unit, Float[Tensor, " piece"]]:
    """What the pieces of each source word received in all, in tokens of the translation.

    The mean of all cross maps and heads. Special tokens and punctuation are no words. Nothing where
    the texts are too short to tell, tokens have no names or weights are gone.
    """
    tokens = trace.tokens(maps[0].columns)
    units = word_positions(tokens) if tokens.named else []
    gone = any(isinstance(each.source, SummaryOnly) for each in maps)
    if gone or len(units) < WORDS or len(maps[0].rows) < ROWS:
        return {}
    whole = torch.stack([coverage(trace, each.site) for each in maps]).mean(dim=0)
    return {unit: whole[list(unit)] for unit in units}


def word_positions(tokens: Tokens) -> list[Unit]:
    """The pieces of each word; of scripts without spaces each piece is a word."""
    numbers = tokens.words or range(len(tokens))
    kinds = token_kinds(tokens).tolist()
    found: dict[object, list[int]] = {}
    for place, (number, kind) in enumerate(zip(numbers, kinds, strict=True)):
        if kind == PLAIN:
            alone = number is None or HAN_OR_KANA_CHARACTER.search(tokens.texts[place])
            found.setdefault(("alone", place) if alone else number, []).append(place)
    return [tuple(unit) for unit in found.values()]


def _hit(
    evidence: Evidence, number: int, maps: list[AttentionMap], words: list[tuple[float, Unit]]
) -> Hit:
    """The worst of these words, with the names of all and the picture that shows them."""
    trace = evidence.traces[number]
    tokens = trace.tokens(maps[0].columns)
    texts = ["".join(tokens.texts[place] for place in unit) for _, unit in words]
    named = ", ".join(map(quoted, texts[:NAMED])) + (" …" if len(texts) > NAMED else "")
    layer = getattr(evidence.config, "alignment_layer", None)
    shown = maps[layer if isinstance(layer, int) and layer < len(maps) else -1]
    return Hit(
        words[0][0],
        shown.site,
        example=number,
        words={"words": named, "rows": len(shown.rows), "written": _written(trace, shown)},
        columns=tuple(sorted(place for _, unit in words for place in unit)),
    )


def _written(trace: Trace, each: AttentionMap) -> str:
    """What the decoder wrote, its beginning if it is long; nothing where that is not known."""
    if each.produced is None:
        return ""
    tokens = trace.tokens(each.produced)
    special = tokens.special or (False,) * len(tokens)
    pieces = [text for text, marked in zip(tokens.texts, special, strict=True) if not marked]
    text = "".join(pieces).replace("▁", " ").strip()
    return f" ({text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'})"


CHECKS = (
    entry("dropped", "warning", _dropped, "heatmap", WIDER),
    entry("repeated", "warning", _repeated, "heatmap", PENALISED),
)
