"""Descriptions of what heads do: for each known role, the head that has it most clearly."""

from collections.abc import Iterator
from functools import partial

from regard.diagnosis.check import Hit, description
from regard.diagnosis.checks.heads import sites_with_enough_rows
from regard.diagnosis.checks.hits import head_hits
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.measures.roles import roles


def _clearest_head(evidence: Evidence, limit: Limit, role: str) -> Iterator[Hit]:
    """The head in which a role is strongest; other heads beyond the limit are only counted."""
    hits = [
        hit
        for site in sites_with_enough_rows(evidence)
        for hit in head_hits(site, site.series(roles, lambda strengths: strengths[role]), limit)
    ]
    if hits:
        best = max(hits, key=lambda hit: hit.value)
        others = [[hit.site, hit.head] for hit in hits if hit is not best]
        yield Hit(
            best.value,
            best.site,
            best.head,
            best.example,
            best.held,
            best.among,
            {"heads": len(hits), "others": others},
        )


CHECKS = tuple(
    description(f"role-{role}", partial(_clearest_head, role=role), "heatmap", limit="role")
    for role in ("aligner", "previous", "next", "self", "induction", "duplicate")
)
