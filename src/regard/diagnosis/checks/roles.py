"""What heads are for: the roles that papers have named, where a head has one clearly."""

from collections.abc import Iterator
from functools import partial

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.heads import sites_with_enough_rows
from regard.diagnosis.checks.hits import head_hits
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.measures.roles import roles


def _leading(evidence: Evidence, limit: Limit, role: str) -> Iterator[Hit]:
    """The head with the clearest role of this name; the others are counted."""
    found = [
        hit
        for site in sites_with_enough_rows(evidence)
        for hit in head_hits(site, site.series(roles, lambda scores: scores[role]), limit)
    ]
    if found:
        best = max(found, key=lambda hit: hit.value)
        others = [[hit.site, hit.head] for hit in found if hit is not best]
        yield Hit(
            best.value,
            best.site,
            best.head,
            best.example,
            best.held,
            best.among,
            {"heads": len(found), "others": others},
        )


CHECKS = tuple(
    entry(f"role-{role}", "observation", partial(_leading, role=role), "heatmap", limit="role")
    for role in ("aligner", "previous", "next", "self", "induction", "duplicate")
)
