"""Which rows of which map show what an answer was computed from."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from regard.types import AttentionMap, Axis, DenseWeights, Evidence, Tokens, Trace

__all__ = ["add_alignment", "class_evidence", "match_evidence", "span_evidence"]


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


def span_evidence(trace: Trace | None, positions: tuple[int, ...]) -> Evidence | None:
    """The rows of the tokens that an answer consists of, in the last map over the text."""
    last = _last_map(trace)
    return None if last is None else Evidence(last.site, _rows_of(last, positions), positions)


def match_evidence(trace: Trace | None, tokens: Tokens, question: int) -> Evidence | None:
    """The rows of the tokens of an entry, which attend to a question of so many characters."""
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
