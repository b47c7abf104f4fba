"""Descriptions of healthy attention: over how many keys the heads of each kind spread."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean

from regard.diagnosis.check import Hit, description
from regard.diagnosis.evidence import Evidence, Site
from regard.diagnosis.limits import Limit
from regard.measures.decoding import monotonicity
from regard.types import SummaryOnly
from regard.types.maps import MapKind


def _mean_spread(evidence: Evidence, limit: Limit, kind: MapKind) -> Iterator[Hit]:
    """The mean effective number of keys of all heads of one kind of site."""
    sites = [site for site in evidence.sites if site.kind == kind]
    heads = [
        (mean, site.name, head)
        for site in sites
        for head, mean in enumerate(site.numbers("effective_keys", least=1).mean.tolist())
        if mean == mean  # leaves out NaN: heads of which nothing is known
    ]
    if not heads:
        return
    least, name, head = min(heads)
    value = fmean(mean for mean, _, _ in heads)
    if limit.crossed(value):
        words = {
            "count": len(heads),
            "sites": len(sites),
            "keys": _mean_visible_keys(sites),
            "least": least,
        }
        if kind == "cross":
            words["order"] = _mean_monotonicity(sites)
        yield Hit(value, name, head, next(iter(evidence.site(name).traces)), words=words)


def _mean_visible_keys(sites: list[Site]) -> float:
    """The mean number of keys that the mask lets a row see."""
    visible = [trace[site.name].visible_counts for site in sites for trace in site.traces.values()]
    return sum(int(counts.sum()) for counts in visible) / sum(counts.numel() for counts in visible)


def _mean_monotonicity(sites: list[Site]) -> float:
    """The mean monotonicity of cross-attention: 1 if sources are read from start to end."""
    values = [
        monotonicity(trace, site.name)
        for site in sites
        for trace in site.traces.values()
        if not isinstance(trace[site.name].source, SummaryOnly)
    ]
    known = [value for value in values if value == value]  # without NaN
    return fmean(known) if known else 0.0


CHECKS = tuple(
    description(f"summary-{kind}", partial(_mean_spread, kind=kind), "heads", limit="summary")
    for kind in ("encoder", "decoder", "cross")
)
