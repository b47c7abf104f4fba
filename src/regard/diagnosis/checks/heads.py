"""Checks of single heads: silent, uniform and constant heads, and heads that rest on few tokens."""

from collections.abc import Iterator, Mapping
from functools import partial

import torch

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.hits import head_hits, word_at
from regard.diagnosis.evidence import Evidence, Series, Site
from regard.diagnosis.limits import LIMITS, Limit
from regard.measures.heads import Heads, head_numbers
from regard.measures.roles import roles
from regard.measures.row_validity import row_validity
from regard.measures.text_variation import text_variation
from regard.types import Trace

KNOCK_OUT = (
    "regard.diagnosis.compare_edit(model, processor, texts, regard.diagnosis.knock_out({site!r}, "
    "heads=[{head}]))"
)
ROWS = 8  # the fewest rows, over all traces, from which a head is judged


def sites_with_enough_rows(evidence: Evidence) -> Iterator[Site]:
    """The sites whose traces have enough rows in all to judge their heads."""
    for site in evidence.sites:
        if sum(len(trace[site.name].rows) for trace in site.traces.values()) >= ROWS:
            yield site


def first_token_weight(site: Site) -> Series:
    """The weight on the first token and on a sink outside the tokens, over rows that see others."""
    first, sink = site.series(roles, lambda strengths: strengths["first"]), site.numbers("on_sink")
    return Series(first.values + sink.values, first.rows, first.examples)


def _sinks(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads that put most of their weight on the first token or on a sink."""
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(
            site,
            first_token_weight(site),
            limit,
            lambda head, example, site=site: {  # type: ignore[misc]
                "word": word_at(site.traces[example], site.name, 0)
            },
        )


def _special_token_heads(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads that put most of their weight on special tokens other than the first."""
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(site, site.series(_special_mass, lambda mass: mass), limit)


def _special_mass(trace: Trace, site: str) -> torch.Tensor:
    """The weight on special tokens without the first key, which the check `sink` reports."""
    numbers, special = head_numbers(trace, site), trace.tokens(trace[site].columns).special
    return numbers.on_special - (numbers.on_first if special and special[0] else 0)


def _heads_by_number(evidence: Evidence, limit: Limit, name: str) -> Iterator[Hit]:
    """Heads whose number of this name in `head_numbers` crosses the limit."""
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(site, site.numbers(name), limit)


def _silent(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads most of whose rows have no weight at all."""
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(
            site, site.series(row_validity, lambda validity: validity.empty_rows, least=0), limit
        )


def _constant(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads whose maps hardly differ between texts, unless another check explains them.

    Heads that attend to a fixed offset or to the first token have a role, and even heads are
    reported as uniform: their maps are the same for every text by nature.
    """
    for site in sites_with_enough_rows(evidence):
        values = text_variation(list(site.traces.values()), site.name)
        if not len(values):
            continue
        explained = site.series(roles, _positional_strength).mean > LIMITS["sink"].value
        explained |= site.numbers("evenness").mean > LIMITS["uniform"].value
        rows = torch.ones(len(values), dtype=torch.long)
        series = Series(values.masked_fill(explained, torch.nan), rows, tuple(range(len(values))))
        for hit in head_hits(site, series, limit):
            words = {"texts": len(site.traces)}
            yield Hit(hit.value, hit.site, hit.head, next(iter(site.traces)), words=words)


def _positional_strength(strengths: Mapping[str, Heads]) -> Heads:
    """The largest strength of the roles that depend on positions alone."""
    named = ("previous", "next", "self", "offset", "first")
    return torch.stack([strengths[name].nan_to_num() for name in named]).amax(dim=0)


CHECKS = (
    entry("silent", "warning", _silent, "heatmap"),
    entry("uniform", "warning", partial(_heads_by_number, name="evenness"), "heatmap", KNOCK_OUT),
    entry("constant", "warning", _constant, "heatmap", KNOCK_OUT),
    entry("sink", "observation", _sinks, "heatmap", KNOCK_OUT),
    entry("special", "observation", _special_token_heads, "heatmap", KNOCK_OUT),
    entry(
        "punctuation",
        "observation",
        partial(_heads_by_number, name="on_punctuation"),
        "heatmap",
        KNOCK_OUT,
    ),
)
