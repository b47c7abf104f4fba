"""What there is to know of healthy attention: over how many tokens each kind of it spreads."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.evidence import Evidence, Site
from regard.diagnosis.limits import Limit
from regard.measures.decoding import monotonicity
from regard.types import SummaryOnly
from regard.types.maps import MapKind


def _spread(evidence: Evidence, limit: Limit, kind: MapKind) -> Iterator[Hit]:
    """The mean number of keys that heads of one kind look at, beside how many they may see."""
    sites = [site for site in evidence.sites if site.kind == kind]
    heads = [
        (mean, site.name, head)
        for site in sites
        for head, mean in enumerate(site.numbers("effective_keys", least=1).mean.tolist())
        if mean == mean
    ]
    if not heads:
        return
    least, name, head = min(heads)
    value = fmean(mean for mean, _, _ in heads)
    if limit.crossed(value):
        words = {"count": len(heads), "sites": len(sites), "keys": _visible(sites), "least": least}
        if kind == "cross":
            words["order"] = _order(sites)
        yield Hit(value, name, head, next(iter(evidence.site(name).traces)), words=words)


def _visible(sites: list[Site]) -> float:
    """How many keys a row may see, on average."""
    seen = [trace[site.name].visible_counts for site in sites for trace in site.traces.values()]
    return sum(int(each.sum()) for each in seen) / sum(each.numel() for each in seen)


def _order(sites: list[Site]) -> float:
    """Whether sources are read from start to end, on average."""
    found = [
        monotonicity(trace, site.name)
        for site in sites
        for trace in site.traces.values()
        if not isinstance(trace[site.name].source, SummaryOnly)
    ]
    known = [each for each in found if each == each]
    return fmean(known) if known else 0.0


CHECKS = tuple(
    entry(f"summary-{kind}", "observation", partial(_spread, kind=kind), "heads", limit="summary")
    for kind in ("encoder", "decoder", "cross")
)
