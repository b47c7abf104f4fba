"""The numbers of each head of one site: how sharp it is, how far and at what it looks."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import InputError
from regard.measures.token_kinds import PUNCTUATION, SPECIAL, token_kinds
from regard.types import AttentionMap, RecomputableWeights, SummaryOnly, Trace

Heads = Float[Tensor, " head"]
Rows = Float[Tensor, "head query"]


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """Means over the rows that attend to anything, one for each head, in double precision.

    NaN is what cannot be said: distances and neighbours of a cross map, whose columns lie in
    another text; special tokens and punctuation where tokens are not known or the weights are
    gone; `deviation` and `evenness` where columns were cut off.
    """

    rows: int
    """How many rows counted: those that attend to anything, with some head."""
    entropy: Heads
    """In nats; a sink is one more outcome."""
    effective_keys: Heads
    """exp(entropy): over how many keys an even row of this entropy would spread."""
    evenness: Heads
    """entropy / log(keys that the row may see), 0 to 1, over the rows that may see two or more."""
    confidence: Heads
    """The largest weight."""
    distance: Heads
    """The mean of |key - query|."""
    locality: Heads
    """The mass within one token: on_previous + on_self + on_next."""
    on_first: Heads
    on_self: Heads
    on_previous: Heads
    on_next: Heads
    on_future: Heads
    on_padding: Heads
    on_sink: Heads
    on_special: Heads
    on_punctuation: Heads
    deviation: Heads
    """The largest |1 - sum of a row|, what fell on padding or a sink included."""


def head_numbers(trace: Trace, site: str) -> HeadNumbers:
    """The numbers of each head, exact for maps of every length.

    Those of rows come from the pass that the model itself made, where its statistics were kept;
    the mass on kinds of tokens costs one more pass over queries and keys, without values.

    >>> import torch
    >>> from regard.measures.heads import head_numbers
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "。"])
    >>> found = head_numbers(trace, "weights")
    >>> found.on_self.item(), found.effective_keys.item(), round(found.on_punctuation.item(), 2)
    (1.0, 1.0, 0.33)
    """
    each = trace[site]
    rows, live = row_numbers(each), attending_rows(each)
    means = {name: mean_over_rows(part, live) for name, part in rows.items()}
    if each.kind == "cross":
        beyond = ("distance", "on_self", "on_previous", "on_next", "on_future")
        means |= {name: torch.full_like(means[name], torch.nan) for name in beyond}
    return HeadNumbers(
        rows=int(live.any(dim=0).sum()),
        effective_keys=mean_over_rows(rows["entropy"].exp(), live),
        evenness=_evenness(trace, each),
        locality=means["on_self"] + means["on_previous"] + means["on_next"],
        **means,
        **_masses(trace, each),
    )


def row_numbers(each: AttentionMap) -> dict[str, Rows]:
    """The numbers of each row by name, in double precision."""
    named = vars(each.row_statistics) | {"confidence": each.row_statistics.largest}
    skipped = ("largest", "largest_key")
    return {name: part.cpu().double() for name, part in named.items() if name not in skipped}


def attending_rows(each: AttentionMap) -> Bool[Tensor, "head query"]:
    """The rows that attend to anything: to a key or to a sink."""
    found = each.row_statistics
    return ((found.largest != 0) | (found.on_sink != 0)).cpu()


def mean_over_rows(rows: Rows, which: Bool[Tensor, "head query"]) -> Heads:
    """The mean of each head's chosen rows; NaN where it has none."""
    return rows.where(which, 0.0).sum(dim=1) / which.sum(dim=1)


def has_every_column(trace: Trace, each: AttentionMap) -> bool:
    """Whether the map has every column that its rows may see: no part of it was cut out."""
    columns = each.columns.positions
    if columns != tuple(range(len(columns))):
        return False
    if len(columns) == len(trace.streams[each.columns.stream]):
        return True
    # while decoding, the token that was produced last is in the stream and has no column yet
    place = torch.arange(len(each.rows)) + each.offset
    return each.kind != "cross" and bool(
        (each.visible_counts <= place + 1).all() and (place < len(columns)).all()
    )


def distance_profile(trace: Trace, site: str, reach: int = 8) -> Float[Tensor, "head offset"]:
    """The mean mass at each offset -reach .. reach from the query, for each head.

    Each is a mean over the rows that have a key at that offset, NaN where none has. Only a band of
    the map along its diagonal is looked at: the cost grows with rows x reach.

    >>> import torch
    >>> from regard.measures.heads import distance_profile
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "你"])
    >>> distance_profile(trace, "weights", 1)
    tensor([[0., 1., 0.]], dtype=torch.float64)
    """
    each = trace[site]
    if reach < 0:
        raise InputError(f"expected a reach of at least 0 tokens, got {reach}")
    if each.kind == "cross":
        raise InputError(
            f"{site!r} looks from one text at another, where offsets mean nothing; expected an "
            "encoder or decoder site"
        )
    total = torch.zeros(each.heads, 2 * reach + 1, dtype=torch.float64)
    count = torch.zeros_like(total)
    live = attending_rows(each)
    tall = max(reach, _TALL)
    for start in range(0, len(each.rows), tall):
        run = range(start, min(len(each.rows), start + tall))
        for head in range(each.heads):
            mass, there = _diagonals(each, head, run, reach)
            own = there & live[head, run.start : run.stop, None]
            total[head] += mass.where(own, 0.0).sum(dim=0)
            count[head] += own.sum(dim=0)
    return total / count


_TALL = 128  # rows of a piece of the band


def _diagonals(
    each: AttentionMap, head: int, run: range, reach: int
) -> tuple[Float[Tensor, "query offset"], Bool[Tensor, "query offset"]]:
    """The weights of some rows at each offset, and where there is a key at all."""
    place = torch.arange(run.start, run.stop) + each.offset
    key = place[:, None] + torch.arange(-reach, reach + 1)
    there = (key >= 0) & (key < len(each.columns))
    first = min(max(0, int(key[0, 0])), len(each.columns))
    stop = max(first, min(len(each.columns), int(key[-1, -1]) + 1))
    band = each.window(head, run, range(first, stop)).mean.cpu().double()
    if first == stop:
        return key.new_zeros(key.shape, dtype=torch.float64), there
    return band.gather(1, (key - first).clamp(0, stop - first - 1)), there


def _evenness(trace: Trace, each: AttentionMap) -> Heads:
    if not has_every_column(trace, each):
        return torch.full((each.heads,), torch.nan, dtype=torch.float64)
    entropy, sink = (each.row_statistics.entropy.cpu().double(), each.row_statistics.on_sink.cpu())
    outcomes = each.visible_counts + (sink > 0)
    several = (outcomes > 1) & attending_rows(each)
    return mean_over_rows((entropy / outcomes.log()).clamp(0, 1), several)


def _masses(trace: Trace, each: AttentionMap) -> dict[str, Heads]:
    """What needs the sums of rows: the mass on kinds of tokens, and how far rows are from one."""
    unknown = torch.full((each.heads,), torch.nan, dtype=torch.float64)
    if isinstance(each.source, SummaryOnly):
        return dict.fromkeys(("on_special", "on_punctuation", "deviation"), unknown)
    tokens, live = trace.tokens(each.columns), attending_rows(each)
    found = each.received(token_kinds(tokens)).by_label
    assert found is not None
    rows = torch.nn.functional.pad(found.cpu().double(), (0, PUNCTUATION + 1 - found.shape[2]))
    special, punctuation = (mean_over_rows(rows[..., n], live) for n in (SPECIAL, PUNCTUATION))
    exact = not isinstance(each.source, RecomputableWeights) or each.source.exact
    known = exact and has_every_column(trace, each)
    return {
        "on_special": unknown if tokens.special is None else special,
        "on_punctuation": punctuation if tokens.named else unknown,
        "deviation": _deviation(each, rows.sum(dim=2), live) if known else unknown,
    }


def _deviation(each: AttentionMap, sums: Rows, live: Bool[Tensor, "head query"]) -> Heads:
    numbers = each.row_statistics
    sums = sums + numbers.on_sink.cpu()
    # padding has no column if it was dropped from the map, and one if it was not
    missing = torch.minimum((1 - sums).abs(), (1 - sums - numbers.on_padding.cpu()).abs())
    worst = missing.masked_fill(~live, 0.0).amax(dim=1) if sums.shape[1] else sums.sum(dim=1)
    return worst.where(worst.isfinite() & live.any(dim=1), torch.nan)
