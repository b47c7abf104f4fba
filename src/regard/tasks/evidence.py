"""What shows what an answer was computed from: rows of a map, or an attribution of its words.

Attention shows where a model looked, which need not be what its answer depends on. For the shipped
classifiers that was measured (bench/highlights.py; the numbers stand in their cards): without the
words that occlusion puts first the probability of the class falls most. Attention gains half as
much for sentiment-en and an eighth for topics-zh, whose linear part has no attention; gradient x
input is nearly as good for topics-zh, and hardly better than chance for sentiment-en. So the
pictures of shipped classifiers are shaded by occlusion, of words in a short text, of sentences in a
long one, for which a pass for each word would take too long. Other models are shaded by attention.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import Eraser
from regard.loading import LoadedModel
from regard.types import (
    AttentionMap,
    Attribution,
    Axis,
    DenseWeights,
    Evidence,
    TaskResult,
    Tokens,
    Trace,
)

__all__ = [
    "add_alignment",
    "class_evidence",
    "evidence_weights",
    "explained_evidence",
    "match_evidence",
    "span_evidence",
    "summary_evidence",
]

# The shipped classifiers whose pictures are shaded by occlusion.
EXPLAINED_MODELS = ("sentiment-en", "sentiment-zh", "topics-en", "topics-zh")
_SHORT = 64  # tokens of a text that is run once more without each of its words
_MOST_PARTS = 24  # of a long text, each left out in one more run
_SENTENCE_ENDS = frozenset(".!?。！？\n")
_COPIED = 0.5  # the share of a summary token's probability from which on it counts as copied


def class_evidence(trace: Trace | None, tokens: Tokens) -> Evidence | None:
    """The row that a class was computed from, in the last map over the text.

    That is the only row of attentive pooling, the special first token of an encoder ([CLS]), or the
    last token of a decoder, also of one that reads the text by cross-attention, as BART does. A
    model that pools over all tokens has no such row.
    """
    last = _last_map(trace)
    if last is None:
        return None
    _, rows, _ = last.shape
    if rows == 1:
        return Evidence(last.site, (0,))
    if last.kind in ("decoder", "cross"):
        return Evidence(last.site, (rows - 1,))
    begins_special = bool(tokens.special and tokens.special[0])
    return Evidence(last.site, _rows_of(last, (0,)) if begins_special else ())


def explained_evidence(
    evidence: Evidence | None, loaded: LoadedModel, text: str, tokens: Tokens
) -> Evidence | None:
    """The evidence with an attribution of the class, for models whose attention says too little."""
    if evidence is None or loaded.name not in EXPLAINED_MODELS:
        return evidence
    by_words = len(tokens) <= _SHORT
    return replace(evidence, attribution=occlude_parts(loaded, text, by_words=by_words))


def occlude_parts(loaded: LoadedModel, text: str, *, by_words: bool) -> Attribution:
    """How much the probability of the class falls without each word, or without each sentence.

    The tokens of a part share its effect. NaN marks tokens that are in none, such as special ones.
    """
    run = CleanRun.of(loaded.model, loaded.processor, text)
    eraser = Eraser(run)
    parts = [[n] for n in range(len(eraser.units))] if by_words else _sentences(eraser.texts)
    falls = run.value - eraser.values(parts)
    values = torch.full((len(run.tokens),), torch.nan, dtype=torch.float64)
    for part, fall in zip(parts, falls.tolist(), strict=True):
        positions = [position for number in part for position in eraser.units[number]]
        values[positions] = fall / len(positions)
    method = "occlusion" if by_words else "sentence-occlusion"
    return Attribution(method, run.objective.name, run.value, run.tokens, values)


def _sentences(words: Sequence[str]) -> list[list[int]]:
    """The indices of the words of each sentence; short neighbours are joined if there are many."""
    least = -(-len(words) // _MOST_PARTS)
    sentences: list[list[int]] = [[]]
    for index, word in enumerate(words):
        sentences[-1].append(index)
        if word[-1:] in _SENTENCE_ENDS and len(sentences[-1]) >= least:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def evidence_weights(result: TaskResult) -> Float[Tensor, " token"]:
    """The weight by which the picture of a result shades each token of its decisive window."""
    evidence = result.evidence
    assert evidence is not None
    if evidence.attribution is not None:
        return evidence.attribution.values.nan_to_num(nan=0.0).clamp_min(0.0).double()
    shown = result.trace[evidence.site]
    rows = list(evidence.rows or range(len(shown.rows)))
    weights = shown.weights()[:, rows].mean((0, 1)).double()
    spread = weights.new_zeros(len(result.trace.streams[shown.columns.stream]))
    spread[list(shown.columns.positions)] = weights
    return spread


def span_evidence(trace: Trace | None, positions: tuple[int, ...]) -> Evidence | None:
    """The rows of the tokens that an answer consists of, in the last map over the text."""
    last = _last_map(trace)
    return None if last is None else Evidence(last.site, _rows_of(last, positions), positions)


def summary_evidence(
    trace: Trace, shares: Sequence[float] | None = None
) -> tuple[Evidence | None, float | None]:
    """What a summary was written from, and the share of its tokens that were copied.

    Shown are all rows of the last map from summary to text. Its marked positions are the tokens of
    the text that were copied: for a token of the summary that stands in the text, the place with
    the largest weight. `shares` are the shares of each token's probability that come from copying,
    where the model tells them; a token counts as copied from one half on.
    """
    cross = trace.of("cross")
    produced = cross[-1].produced if cross else None
    if produced is None:
        return None, None
    last = cross[-1]
    written, read = trace.tokens(produced), trace.tokens(last.columns)
    weights = last.weights().mean(0)
    marked, real, copied = set[int](), 0, 0
    for row, text in enumerate(written.texts[: len(weights)]):
        if written.special is not None and written.special[row]:
            continue
        real += 1
        places = [column for column, other in enumerate(read.texts) if other == text]
        if not places or (shares is not None and shares[row] < _COPIED):
            continue
        marked.add(last.columns.positions[max(places, key=lambda place: weights[row, place])])
        copied += 1
    share = copied / real if real else None
    return Evidence(last.site, (), tuple(sorted(marked))), share


def match_evidence(trace: Trace | None, tokens: Tokens, question: int) -> Evidence | None:
    """The rows of the tokens of an entry, which attend to a question of that length."""
    last, offsets = _last_map(trace), tokens.offsets or ()
    entry = [place for place, (start, stop) in enumerate(offsets) if stop > start >= question]
    return None if last is None else Evidence(last.site, _rows_of(last, tuple(entry)))


def add_alignment(
    trace: Trace | None, question: Tokens, weights: Float[Tensor, "question entry"]
) -> Trace | None:
    """The trace of an encoder on an entry, with the attention of a question's tokens to it added.

    None if the encoder read other tokens than the weights are for.
    """
    last = _last_map(trace)
    if trace is None or last is None or len(last.columns) != weights.shape[1]:
        return None
    rows = Axis("question", tuple(range(len(weights))))
    added = AttentionMap(
        "question → entry", "cross", rows, last.columns, DenseWeights(weights[None])
    )
    streams = {**trace.streams, "question": question}
    return replace(trace, streams=streams, maps=(*trace.maps, added))


def _last_map(trace: Trace | None) -> AttentionMap | None:
    """The last map whose columns are the tokens that were read; None if nothing attended."""
    if trace is None or not trace.maps:
        return None
    stream = trace.maps[0].columns.stream
    return [each for each in trace.maps if each.columns.stream == stream][-1]


def _rows_of(attention_map: AttentionMap, positions: tuple[int, ...]) -> tuple[int, ...]:
    """The rows of the tokens at these positions of their stream."""
    rows = attention_map.rows.positions
    return tuple(index for index, position in enumerate(rows) if position in positions)
