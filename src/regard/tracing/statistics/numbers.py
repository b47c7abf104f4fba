"""One number of each measure for each head of each example: means over the rows of a site."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.tracing.statistics.rows import SiteRows

MEASURES = (
    "entropy",
    "effective_keys",
    "evenness",
    "confidence",
    "distance",
    "locality",
    "on_first",
    "on_self",
    "on_previous",
    "on_next",
    "on_future",
    "on_padding",
    "on_sink",
)
LAST = "deviation"  # how far the masses of a row on all kinds of tokens are from one, at most
_WITHIN_ONE_TEXT = ("distance", "locality", "on_self", "on_previous", "on_next", "on_future")

Heads = Float[Tensor, "example head"]
RowNumbers = Float[Tensor, "example head row"]


def example_numbers(rows: SiteRows, kinds: Sequence[str]) -> dict[str, Heads]:
    """The numbers of `measures.head_numbers`, for all examples at once; NaN where one is undefined.

    `kinds` names the measures of the mass on each kind of token; the kind after the last is
    padding. A kind whose name is empty is not measured.
    """
    live, numbers = rows.live, rows.numbers
    numbers = numbers | {"effective_keys": numbers["entropy"].exp()}
    means = _means(numbers, live)
    means["evenness"] = _evenness(rows)
    means["locality"] = means["on_self"] + means["on_previous"] + means["on_next"]
    unknown = torch.full_like(means["entropy"], torch.nan)
    if rows.call.kind == "cross":
        means |= dict.fromkeys(_WITHIN_ONE_TEXT, unknown)
    masses = rows.by_kind(len(kinds) + 1)
    if masses is None:
        return means | dict.fromkeys([*kinds, LAST], unknown)
    means |= _means(dict(zip([*kinds, "on_padding"], masses.unbind(dim=3), strict=True)), live)
    missing = (1 - masses.sum(dim=3) - numbers["on_sink"]).abs()
    worst = missing.masked_fill(~live, 0.0).amax(dim=2).double()
    return means | {LAST: worst.where(live.any(dim=2), torch.nan)}


def _means(
    numbers: Mapping[str, RowNumbers], which: Bool[Tensor, "example head row"]
) -> dict[str, Heads]:
    """The means of all measures at once, which is faster than one by one for short texts."""
    means = mean_over(torch.stack(list(numbers.values())), which)
    return dict(zip(numbers, means, strict=True))


def mean_over(
    rows: Float[Tensor, "*measure example head row"], which: Bool[Tensor, "example head row"]
) -> Float[Tensor, "*measure example head"]:
    """The mean of the chosen rows of each head, in double precision; NaN where it has none."""
    return rows.where(which, 0.0).sum(dim=-1, dtype=torch.float64) / which.sum(dim=-1)


def _evenness(rows: SiteRows) -> Heads:
    """The mean over rows of entropy / log(number of visible keys); 1 is a uniform row.

    Rows that can see only one key have no evenness and are left out.
    """
    outcomes = rows.visible + (rows.numbers["on_sink"] > 0)
    several = (outcomes > 1) & rows.live
    return mean_over((rows.numbers["entropy"] / outcomes.log()).clamp(0, 1), several)
