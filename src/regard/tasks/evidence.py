"""Which rows of which map show what an answer was computed from."""

from collections.abc import Sequence

from regard.types import AttentionMap, Evidence, Tokens, Trace

__all__ = ["class_evidence", "span_evidence", "summary_evidence"]

_COPIED = 0.5  # the share of a token's probability from which on it counts as copied


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
    if not cross or cross[-1].produced is None:
        return None, None
    last = cross[-1]
    written, read = trace.tokens(last.produced), trace.tokens(last.columns)
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
