"""Checks of one head at a time: where it rests, and whether it does anything."""

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
ROWS = 8  # rows of all traces together, below which nothing is said of a head's habits


def sites_with_enough_rows(evidence: Evidence) -> Iterator[Site]:
    """The sites of which there is enough to tell the habits of heads."""
    for site in evidence.sites:
        if sum(len(trace[site.name].rows) for trace in site.traces.values()) >= ROWS:
            yield site


def first_token_weight(site: Site) -> Series:
    """The weight on the first token, or on a sink beside the tokens, of rows that see others."""
    first, sink = site.series(roles, lambda found: found["first"]), site.numbers("on_sink")
    return Series(first.values + sink.values, first.rows, first.examples)


def _sinks(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(
            site,
            first_token_weight(site),
            limit,
            lambda head, example, site=site: {  # type: ignore[misc]
                "word": word_at(site.traces[example], site.name, 0)
            },
        )


def _on_special(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(site, site.series(_special_mass, lambda mass: mass), limit)


def _special_mass(trace: Trace, site: str) -> torch.Tensor:
    """The mass on special tokens other than the first key, which is a sink's."""
    found, special = head_numbers(trace, site), trace.tokens(trace[site].columns).special
    return found.on_special - (found.on_first if special and special[0] else 0)


def _of_numbers(evidence: Evidence, limit: Limit, name: str) -> Iterator[Hit]:
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(site, site.numbers(name), limit)


def _silent(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    for site in sites_with_enough_rows(evidence):
        yield from head_hits(
            site, site.series(row_validity, lambda found: found.empty_rows, least=0), limit
        )


def _constant(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads whose maps hardly differ between texts, unless it is explained otherwise.

    A head that looks at one offset or at the first token has a role, and an even one is uniform.
    """
    for site in sites_with_enough_rows(evidence):
        values = text_variation(list(site.traces.values()), site.name)
        if not len(values):
            continue
        explained = site.series(roles, _positional).mean > LIMITS["sink"].value
        explained |= site.numbers("evenness").mean > LIMITS["uniform"].value
        rows = torch.ones(len(values), dtype=torch.long)
        series = Series(values.masked_fill(explained, torch.nan), rows, tuple(range(len(values))))
        for hit in head_hits(site, series, limit):
            words = {"texts": len(site.traces)}
            yield Hit(hit.value, hit.site, hit.head, next(iter(site.traces)), words=words)


def _positional(scores: Mapping[str, Heads]) -> Heads:
    """How much of a head one offset or the first token explains, whatever is read."""
    named = ("previous", "next", "self", "offset", "first")
    return torch.stack([scores[name].nan_to_num() for name in named]).amax(dim=0)


CHECKS = (
    entry("silent", "warning", _silent, "heatmap"),
    entry("uniform", "warning", partial(_of_numbers, name="evenness"), "heatmap", KNOCK_OUT),
    entry("constant", "warning", _constant, "heatmap", KNOCK_OUT),
    entry("sink", "observation", _sinks, "heatmap", KNOCK_OUT),
    entry("special", "observation", _on_special, "heatmap", KNOCK_OUT),
    entry(
        "punctuation",
        "observation",
        partial(_of_numbers, name="on_punctuation"),
        "heatmap",
        KNOCK_OUT,
    ),
)
