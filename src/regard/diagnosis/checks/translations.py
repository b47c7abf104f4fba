"""Checks of translations: source words that received too little attention, or too much."""

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
WORDS, ROWS = 3, 4  # the fewest words of a source and tokens of a translation that are judged
FEW = 1 / 3  # the largest share of the words that can be called dropped
NAMED = 5  # the most words that a sentence names
SHOWN = 40  # the most characters of a translation that a sentence quotes


def _dropped(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Source words that received almost no weight while the translation was written."""
    for number, maps in evidence.crossing():
        received = word_coverage(evidence.finite_traces[number], maps)
        low = sorted((float(weights.sum()), unit) for unit, weights in received.items())
        low = [pair for pair in low if limit.crossed(pair[0])]
        # if most words received nothing, the heads are at fault and not the translation
        if 0 < len(low) <= FEW * len(received):
            yield _hit_of_words(evidence, number, maps, low)


def _repeated(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Source words with a piece that received the weight of many target tokens."""
    for number, maps in evidence.crossing():
        received = word_coverage(evidence.finite_traces[number], maps)
        peaks = ((float(weights.max()), unit) for unit, weights in received.items())
        high = [pair for pair in sorted(peaks, reverse=True) if limit.crossed(pair[0])]
        if high:
            yield _hit_of_words(evidence, number, maps, high)


Unit = tuple[int, ...]  # the positions of the pieces of one word


def word_coverage(trace: Trace, maps: list[AttentionMap]) -> dict[Unit, Float[Tensor, " piece"]]:
    """The total weight that each piece of each source word received over all target tokens.

    It is the mean of all cross maps and heads. Special tokens and punctuation are not words. It is
    empty if the texts are too short, tokens have no names or the weights were not kept.
    """
    tokens = trace.tokens(maps[0].columns)
    units = word_positions(tokens) if tokens.named else []
    no_weights = any(isinstance(cross.source, SummaryOnly) for cross in maps)
    if no_weights or len(units) < WORDS or len(maps[0].rows) < ROWS:
        return {}
    received = torch.stack([coverage(trace, cross.site) for cross in maps]).mean(dim=0)
    return {unit: received[list(unit)] for unit in units}


def word_positions(tokens: Tokens) -> list[Unit]:
    """The positions of the pieces of each word; Han and kana pieces are a word each."""
    numbers = tokens.words or range(len(tokens))
    kinds = token_kinds(tokens).tolist()
    positions: dict[object, list[int]] = {}
    for place, (number, kind) in enumerate(zip(numbers, kinds, strict=True)):
        if kind == PLAIN:
            alone = number is None or HAN_OR_KANA_CHARACTER.search(tokens.texts[place])
            positions.setdefault(("alone", place) if alone else number, []).append(place)
    return [tuple(unit) for unit in positions.values()]


def _hit_of_words(
    evidence: Evidence, number: int, maps: list[AttentionMap], words: list[tuple[float, Unit]]
) -> Hit:
    """A hit with the value of the first word, the names of all and the map that shows them."""
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
        words={"words": named, "rows": len(shown.rows), "written": _written_text(trace, shown)},
        columns=tuple(sorted(place for _, unit in words for place in unit)),
    )


def _written_text(trace: Trace, cross: AttentionMap) -> str:
    """The text that the decoder wrote, in parentheses and shortened; empty if it is unknown."""
    if cross.produced is None:
        return ""
    tokens = trace.tokens(cross.produced)
    special = tokens.special or (False,) * len(tokens)
    pieces = [text for text, marked in zip(tokens.texts, special, strict=True) if not marked]
    text = "".join(pieces).replace("▁", " ").strip()
    return f" ({text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'})"


CHECKS = (
    entry("dropped", "warning", _dropped, "heatmap", WIDER),
    entry("repeated", "warning", _repeated, "heatmap", PENALISED),
)
