"""Checks of the heads of a site beside each other: copies, and layers that collapsed."""

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
SEVERAL = 3  # heads that a layer has at least, to be called collapsed


def _redundant(evidence: Evidence, limit: Limit) -> Iterator[Hit]:
    """Each head with the head before it that it is most like, if it is like enough."""
    for site in sites_with_enough_rows(evidence):
        tables, examples = _tables(site)
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
    """Sites all of whose heads are alike on average over their pairs."""
    for site in sites_with_enough_rows(evidence):
        tables, examples = _tables(site)
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


def _tables(site: Site) -> tuple[Float[Tensor, "example head head"], list[int]]:
    """The distances between heads in the traces whose maps have enough keys, and their numbers."""
    found = {
        number: table
        for number, table in site.measured(_distances).items()
        if table is not None and len(site.traces[number][site.name].columns) >= LEAST
    }
    if not found:
        return torch.zeros(0, site.heads, site.heads, dtype=torch.float64), []
    return torch.stack(list(found.values())), list(found)


def _distances(trace: Trace, site: str) -> Float[Tensor, "head head"] | None:
    """None where rows cannot be compared: cells of an atlas blur heads until they look alike."""
    return row_distances(trace, site) if compares_rows(trace, site) else None


CHECKS = (
    entry("collapsed", "warning", _collapsed, "heads", ALL_BUT_ONE),
    entry("redundant", "observation", _redundant, "heads", KNOCK_OUT),
)
