"""Checks of rows: invalid numbers, sums, padding, later tokens, one-hot rows, and text length."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.configs import context_length
from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.heads import first_token_weight, sites_with_enough_rows
from regard.diagnosis.checks.hits import head_hits, quoted
from regard.diagnosis.declarations import declared_row_sum
from regard.diagnosis.evidence import Evidence, Series, Site
from regard.diagnosis.limits import LIMITS, Limit
from regard.measures.row_validity import RowValidity, invalid_rows, mass_on, row_validity
from regard.types import SummaryOnly, Tokens, Trace

ALONE = "regard.capture(model, processor, texts[{example}])  # alone, it needs no padding"
BACKWARDS = (
    "regard.diagnosis.compare_edit(model, processor, texts, regard.diagnosis.mask_future({site!r}))"
)
SOFTENED = (
    "regard.diagnosis.compare_edit(model, processor, texts, "
    "regard.diagnosis.set_temperature({site!r}, 4.0))"
)
NAMED = 5  # the most rows that a sentence names and a picture marks


def _numeric(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads with rows that are not finite or have negative weights, and which rows these are."""
    for site in evidence.sites:
        series = _series_where_crossed(site, lambda validity: validity.invalid_rows, limit)
        for hit in head_hits(site, series, limit):
            assert hit.head is not None
            trace = site.recorded[hit.example]
            rows = invalid_rows(trace, site.name)[hit.head].nonzero()[:, 0].tolist()
            words = {"rows": _name_rows(trace, site.name, rows)}
            yield replace(hit, words=words, rows=tuple(rows[:NAMED]))


def _name_rows(trace: Trace, site: str, rows: Sequence[int]) -> str:
    """The numbers of rows with their tokens, such as '2 "love", 5 "you" …'."""
    tokens = trace.tokens(trace[site].rows)
    named = [f"{row} {quoted(tokens.texts[row])}" if tokens.named else f"{row}" for row in rows]
    return ", ".join(named[:NAMED]) + (" …" if len(named) > NAMED else "")


def _sums(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads whose rows do not sum to one, or to more than one if partial sums are declared."""
    if declared_row_sum(evidence.model) == "any":
        return
    part = _excess_over_one if evidence.expects("partial") else _distance_from_one
    for site in evidence.sites:
        yield from head_hits(site, _series_where_crossed(site, part, limit), limit)


def _excess_over_one(validity: RowValidity) -> Tensor:
    return validity.excess.nan_to_num()


def _distance_from_one(validity: RowValidity) -> Tensor:
    """How far sums of rows are from one; weight that is on padding does not count as missing."""
    on_padding = validity.on_padding.nan_to_num() > 0
    missing = torch.where(on_padding, 0.0, validity.missing.nan_to_num())
    return torch.maximum(validity.excess.nan_to_num(), missing)


def _series_where_crossed(site: Site, part: Any, limit: Limit) -> Series:
    """A series in which only traces where some head crosses the limit count for the mean.

    A bug in one text must not be averaged away by the texts that do not have it.
    """
    whole = site.series(row_validity, part, least=0)
    crossed = [any(map(limit.crossed, row)) for row in whole.values.tolist()]
    return Series(whole.values, torch.tensor(crossed, dtype=torch.long), whole.examples)


def _padding(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads that put weight on padding."""
    for site in evidence.sites:
        validity = site.measured(row_validity)
        values = torch.stack(
            [
                torch.fmax(validity[number].on_padding, _on_named_padding(evidence, site, number))
                for number in site.traces
            ]
        )
        crossed = (values > limit.value).any(dim=1).long()
        series = Series(values, crossed, tuple(site.traces))
        yield from head_hits(site, series, limit)


def _on_named_padding(evidence: Evidence, site: Site, number: int) -> Tensor:
    """The weight on columns that are padding by their tokens or by the length of the text."""
    trace = site.traces[number]
    attention_map = trace[site.name]
    columns = padded_columns(evidence, trace, site.name, number)
    if not columns or isinstance(attention_map.source, SummaryOnly):
        return torch.zeros(attention_map.heads, dtype=torch.float64)
    return mass_on(trace, site.name, columns)


def padded_columns(evidence: Evidence, trace: Trace, site: str, number: int) -> Sequence[int]:
    """The columns of a map that are padding though the model did not mask them.

    These are the tokens that the tokenizer uses for padding, except a single one at the start, with
    which some decoders begin. If tokens have no names, they are the positions beyond the text.
    """
    attention_map, pad = trace[site], getattr(evidence.processor, "pad_token", None)
    tokens = trace.tokens(attention_map.columns)
    if tokens.named:
        named = [n for n, text in enumerate(tokens.texts) if text == pad]
        return [] if named == [0] else named
    return _columns_beyond_text(evidence, tokens, number) if attention_map.kind == "encoder" else []


def _columns_beyond_text(evidence: Evidence, tokens: Tokens, number: int) -> Sequence[int]:
    """The columns that the text, tokenized again by itself, is too short to fill."""
    if not evidence.texts or not callable(evidence.processor):
        return []
    if not isinstance(evidence.texts[number], str):
        return []
    real = len(evidence.processor(evidence.texts[number])["input_ids"])
    if not 0 < real < len(tokens):
        return []
    if getattr(evidence.processor, "padding_side", "right") == "left":
        return range(len(tokens) - real)
    return range(real, len(tokens))


def _leaks(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads that put weight on later tokens at sites that are declared causal."""
    for site in evidence.sites:
        by = evidence.causal_by(site)
        if by is not None:
            series = site.numbers("on_future", least=0)
            words = {"by": by}
            yield from head_hits(site, series, limit, lambda head, example, words=words: words)  # type: ignore[misc]


def _one_hot(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Sites whose heads all attend to about one key per row; heads that are sinks do not count."""
    for site in () if evidence.expects("hard") else sites_with_enough_rows(evidence):
        series = site.numbers("evenness")
        kept = ~(first_token_weight(site).mean > LIMITS["sink"].value)
        if not bool(kept.any()) and site.heads > 1:  # all heads are sinks: judge them all
            kept = ~kept
        means = series.mean.masked_fill(~kept, -torch.inf)
        head = int(means.argmax())
        if bool(means.isnan().any()) or not kept[head] or not limit.crossed(float(means[head])):
            continue
        yield Hit(
            float(means[head]),
            site.name,
            example=series.extreme(head, "below"),
            held=sum(map(limit.crossed, series.values[:, kept].amax(dim=1).tolist())),
            among=series.known(head),
            words={"heads": site.heads},
        )


def _too_long(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """The trace with the most positions, if they exceed the context length of the model."""
    most = context_length(evidence.config)
    lengths = [max(map(len, trace.streams.values()), default=0) for trace in evidence.traces]
    value = max(lengths)
    if most is not None and value > limit.value * most:
        yield Hit(
            float(value),
            example=lengths.index(value),
            held=sum(length > limit.value * most for length in lengths),
            among=len(lengths),
            limit=float(most),
        )


CHECKS = (
    entry("numeric", "bug", _numeric, "heatmap"),
    entry("sums", "bug", _sums, "heatmap"),
    entry("padding", "bug", _padding, "heatmap", ALONE),
    entry("leak", "bug", _leaks, "heatmap", BACKWARDS),
    entry("one-hot", "warning", _one_hot, "heads", SOFTENED),
    entry("length", "warning", _too_long),
)
