"""Checks that compare the heads of a site: copies of a head, and layers that collapsed to one."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from regard.diagnosis.check import Hit, entry
from regard.diagnosis.checks.heads import KNOCK_OUT, sites_with_enough_rows
from regard.diagnosis.evidence import LEAST, Evidence, Site
from regard.diagnosis.limits import Limit
from regard.measures.head_distances import compares_rows, row_distances
from regard.types import Trace

ALL_BUT_ONE = (
    "regard.diagnosis.compare_edit(model, processor, texts, regard.diagnosis.knock_out({site!r}, "
    "heads=range(1, {heads})))"
)
SEVERAL = 3  # the fewest heads of a layer that can be called collapsed


def _redundant(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Heads whose distance to the nearest head before them is below the limit."""
    for site in sites_with_enough_rows(evidence):
        tables, examples = _distance_tables(site)
        for head in range(1, site.heads) if examples else ():
            pairs = tables[:, head, :head]
            other = int(pairs.nanmean(dim=0).nan_to_num(nan=torch.inf).argmin())
            values = pairs[:, other]
            mean = float(values.nanmean())
            if limit.crossed(mean):
                yield Hit(
                    mean,
                    site.name,
                    head,
                    examples[int(values.nan_to_num(nan=torch.inf).argmin())],
                    sum(map(limit.crossed, values.tolist())),
                    len(examples),
                    {"other": site.number(other)},
                )


def _collapsed(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Sites whose mean distance over all pairs of heads is below the limit."""
    for site in sites_with_enough_rows(evidence):
        tables, examples = _distance_tables(site)
        if site.heads < SEVERAL or not examples:
            continue
        apart = ~torch.eye(site.heads, dtype=torch.bool)
        values = tables[:, apart].nanmean(dim=1)
        mean = float(values.nanmean())
        if limit.crossed(mean):
            yield Hit(
                mean,
                site.name,
                example=examples[int(values.nan_to_num(nan=torch.inf).argmin())],
                held=sum(map(limit.crossed, values.tolist())),
                among=len(examples),
                words={"heads": site.heads},
            )


def _distance_tables(site: Site) -> tuple[Float[Tensor, "example head head"], list[int]]:
    """The distances between heads, and the indices of the traces whose maps have enough keys."""
    tables = {
        number: table
        for number, table in site.measured(_comparable_distances).items()
        if table is not None and len(site.traces[number][site.name].columns) >= LEAST
    }
    if not tables:
        return torch.zeros(0, site.heads, site.heads, dtype=torch.float64), []
    return torch.stack(list(tables.values())), list(tables)


def _comparable_distances(trace: Trace, site: str) -> Float[Tensor, "head head"] | None:
    """The distances between heads; None for an atlas, whose averaged cells make heads alike."""
    return row_distances(trace, site) if compares_rows(trace, site) else None


CHECKS = (
    entry("collapsed", "warning", _collapsed, "heads", ALL_BUT_ONE),
    entry("redundant", "observation", _redundant, "heads", KNOCK_OUT),
)
