"""Checks of the rows themselves: numbers, sums, padding, the future, sharpness and length."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.configs import context_length
from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.heads import first_token_weight, sites_with_enough_rows
from regard.diagnosis.checks.hits import head_hits
from regard.diagnosis.declarations import declared_row_sum
from regard.diagnosis.evidence import Evidence, Series, Site
from regard.diagnosis.limits import LIMITS, Limit
from regard.measures.row_validity import RowValidity, mass_on, row_validity
from regard.types import SummaryOnly, Tokens, Trace

ALONE = "regard.capture(model, processor, texts[{example}])  # alone, it needs no padding"
BACKWARDS = (
    "regard.diagnosis.compare_edit(model, processor, texts, regard.diagnosis.mask_future({site!r}))"
)
SOFTENED = (
    "regard.diagnosis.compare_edit(model, processor, texts, "
    "regard.diagnosis.set_temperature({site!r}, 4.0))"
)


def _numeric(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for site in evidence.sites:
        yield from head_hits(
            site, _series_where_crossed(site, lambda found: found.invalid_rows, limit), limit
        )


def _sums(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    if declared_row_sum(evidence.model) == "any":
        return
    part = _excess_over_one if evidence.expects("partial") else _distance_from_one
    for site in evidence.sites:
        yield from head_hits(site, _series_where_crossed(site, part, limit), limit)


def _excess_over_one(found: RowValidity) -> Tensor:
    return found.excess.nan_to_num()


def _distance_from_one(found: RowValidity) -> Tensor:
    """How far sums are from one, unless what is missing is known to be on padding."""
    lacking = torch.where(found.on_padding.nan_to_num() > 0, 0.0, found.missing.nan_to_num())
    return torch.maximum(found.excess.nan_to_num(), lacking)


def _series_where_crossed(site: Site, part: Any, limit: Limit) -> Series:
    """The numbers of the traces in which some head crosses the limit; the others say nothing."""
    whole = site.series(row_validity, part, least=0)
    crossed = [any(map(limit.crossed, row)) for row in whole.values.tolist()]
    return Series(whole.values, torch.tensor(crossed, dtype=torch.long), whole.examples)


def _padding(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for site in evidence.sites:
        found = site.measured(row_validity)
        values = torch.stack(
            [
                torch.fmax(found[number].on_padding, _on_named_padding(evidence, site, number))
                for number in site.traces
            ]
        )
        crossed = (values > limit.value).any(dim=1).long()
        series = Series(values, crossed, tuple(site.traces))
        yield from head_hits(site, series, limit)


def _on_named_padding(evidence: Evidence, site: Site, number: int) -> Tensor:
    """The mass on columns that are padding by their names, or by the length of the text."""
    trace = site.traces[number]
    each = trace[site.name]
    columns = padded_columns(evidence, trace, site.name, number)
    if not columns or isinstance(each.source, SummaryOnly):
        return torch.zeros(each.heads, dtype=torch.float64)
    return mass_on(trace, site.name, columns)


def padded_columns(evidence: Evidence, trace: Trace, site: str, number: int) -> Sequence[int]:
    """The columns of a map that are padding though the model did not mask them.

    Tokens called as the tokenizer calls padding, but for one at the very start, with which some
    decoders begin; where no token has a name, those that the text is too short for.
    """
    each, pad = trace[site], getattr(evidence.processor, "pad_token", None)
    tokens = trace.tokens(each.columns)
    if tokens.named:
        named = [n for n, text in enumerate(tokens.texts) if text == pad]
        return [] if named == [0] else named
    return _beyond_text(evidence, tokens, number) if each.kind == "encoder" else []


def _beyond_text(evidence: Evidence, tokens: Tokens, number: int) -> Sequence[int]:
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
    for site in evidence.sites:
        by = evidence.causal_by(site)
        if by is not None:
            series = site.numbers("on_future", least=0)
            words = {"by": by}
            yield from head_hits(site, series, limit, lambda head, example, words=words: words)  # type: ignore[misc]


def _one_hot(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Sites none of whose heads looks at more than one key at a time, sinks left aside."""
    for site in () if evidence.expects("hard") else sites_with_enough_rows(evidence):
        series = site.numbers("evenness")
        kept = ~(first_token_weight(site).mean > LIMITS["sink"].value)
        if not bool(kept.any()) and site.heads > 1:  # all of them: no longer a head's own habit
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
    """The trace with the most positions, if these are more than the model was made for."""
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
