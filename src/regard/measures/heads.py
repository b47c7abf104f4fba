"""Numbers that describe each head of a site: entropy, distance, and which keys get its weight."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.measures.token_kinds import PUNCTUATION, SPECIAL, token_kinds
from regard.types import AttentionMap, RecomputableWeights, SummaryOnly, Trace
from regard.types.tables import data_frame

Heads = Float[Tensor, " head"]
HeadRows = Float[Tensor, "head query"]


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """Means over the rows that attend to anything, one for each head, in double precision.

    NaN marks what is undefined or unknown: distances and neighbours of a cross map, whose columns
    lie in another text; special tokens and punctuation where tokens are not known or only
    statistics were kept; `deviation` and `evenness` where columns were cut off.
    """

    rows: int
    """How many rows attend to anything, with at least one head."""
    entropy: Heads
    """The entropy of a row in nats; a sink counts as one more key."""
    effective_keys: Heads
    """exp(entropy): the number of equally weighted keys with the same entropy."""
    evenness: Heads
    """entropy / log(visible keys), 0 to 1, over the rows that see two keys or more."""
    confidence: Heads
    """The largest weight."""
    distance: Heads
    """The mean distance |key - query| in tokens."""
    locality: Heads
    """The weight within one token: on_previous + on_self + on_next."""
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
    """The largest |1 - sum of a row|, counting what fell on padding or a sink."""

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with one row per head and one column per number."""
        names = [field.name for field in fields(self) if field.name != "rows"]
        numbers = {name: getattr(self, name).tolist() for name in names}
        return data_frame({"head": list(range(len(self.entropy)))} | numbers)

    def __repr__(self) -> str:
        least, most = (float(bound) for bound in self.effective_keys.aminmax())
        return (
            f"<HeadNumbers of {len(self.entropy)} heads over {self.rows} rows: "
            f"{least:.3g} to {most:.3g} effective keys>"
        )


@check_first_argument
def head_numbers(trace: Trace, site: str) -> HeadNumbers:
    """The numbers of each head, exact for maps of every length.

    The statistics of rows were taken in the model's own pass where they were kept. The weight on
    special tokens and punctuation costs one more pass over queries and keys, without values.

    >>> import torch
    >>> from regard.measures.heads import head_numbers
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "。"])
    >>> heads = head_numbers(trace, "weights")
    >>> heads.on_self.item(), heads.effective_keys.item(), round(heads.on_punctuation.item(), 2)
    (1.0, 1.0, 0.33)
    >>> heads
    <HeadNumbers of 1 heads over 3 rows: 1 to 1 effective keys>
    """
    attention_map = trace[site]
    rows, attending = row_numbers(attention_map), attending_rows(attention_map)
    means = {name: mean_over_rows(part, attending) for name, part in rows.items()}
    if attention_map.kind == "cross":
        undefined = ("distance", "on_self", "on_previous", "on_next", "on_future")
        means |= {name: torch.full_like(means[name], torch.nan) for name in undefined}
    return HeadNumbers(
        rows=int(attending.any(dim=0).sum()),
        effective_keys=mean_over_rows(rows["entropy"].exp(), attending),
        evenness=_evenness(trace, attention_map),
        locality=means["on_self"] + means["on_previous"] + means["on_next"],
        **means,
        **_mass_by_kind(trace, attention_map),
    )


def row_numbers(attention_map: AttentionMap) -> dict[str, HeadRows]:
    """The statistics of each row by name, in double precision."""
    named = vars(attention_map.row_statistics) | {
        "confidence": attention_map.row_statistics.largest
    }
    skipped = ("largest", "largest_key")
    return {name: part.cpu().double() for name, part in named.items() if name not in skipped}


def attending_rows(attention_map: AttentionMap) -> Bool[Tensor, "head query"]:
    """True for the rows that attend to anything: to a key or to a sink."""
    statistics = attention_map.row_statistics
    return ((statistics.largest != 0) | (statistics.on_sink != 0)).cpu()


def mean_over_rows(rows: HeadRows, which: Bool[Tensor, "head query"]) -> Heads:
    """The mean of each head's chosen rows; NaN where it has none."""
    return rows.where(which, 0.0).sum(dim=1) / which.sum(dim=1)


def has_every_column(trace: Trace, attention_map: AttentionMap) -> bool:
    """True if the map has every column that its rows may see, so that no column was cut off."""
    columns = attention_map.columns.positions
    if columns != tuple(range(len(columns))):
        return False
    if len(columns) == len(trace.streams[attention_map.columns.stream]):
        return True
    # while decoding, the token that was generated last is in the stream but has no column yet
    position = torch.arange(len(attention_map.rows)) + attention_map.offset
    return attention_map.kind != "cross" and bool(
        (attention_map.visible_counts <= position + 1).all() and (position < len(columns)).all()
    )


@check_first_argument
def distance_profile(trace: Trace, site: str, reach: int = 8) -> Float[Tensor, "head offset"]:
    """The mean weight at each offset -reach .. reach from the query, for each head.

    The mean is over the rows that have a key at that offset, NaN where no row has one. Only a band
    of the map along its diagonal is computed: the cost grows with rows x reach.

    >>> import torch
    >>> from regard.measures.heads import distance_profile
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "你"])
    >>> distance_profile(trace, "weights", 1)
    tensor([[0., 1., 0.]], dtype=torch.float64)
    """
    attention_map = trace[site]
    if reach < 0:
        raise InputError(f"expected a reach of at least 0 tokens, got {reach}")
    if attention_map.kind == "cross":
        raise InputError(
            f"{site!r} looks from one text at another, where offsets mean nothing; expected an "
            "encoder or decoder site"
        )
    total = torch.zeros(attention_map.heads, 2 * reach + 1, dtype=torch.float64)
    count = torch.zeros_like(total)
    attending = attending_rows(attention_map)
    height = max(reach, _BAND_ROWS)
    for start in range(0, len(attention_map.rows), height):
        run = range(start, min(len(attention_map.rows), start + height))
        for head in range(attention_map.heads):
            mass, has_key = _diagonals(attention_map, head, run, reach)
            counted = has_key & attending[head, run.start : run.stop, None]
            total[head] += mass.where(counted, 0.0).sum(dim=0)
            count[head] += counted.sum(dim=0)
    return total / count


_BAND_ROWS = 128  # rows of the band that are computed at a time, unless the reach is larger


def _diagonals(
    attention_map: AttentionMap, head: int, run: range, reach: int
) -> tuple[Float[Tensor, "query offset"], Bool[Tensor, "query offset"]]:
    """The weights of some rows at each offset, and whether there is a key at that offset."""
    position = torch.arange(run.start, run.stop) + attention_map.offset
    key = position[:, None] + torch.arange(-reach, reach + 1)
    has_key = (key >= 0) & (key < len(attention_map.columns))
    first = min(max(0, int(key[0, 0])), len(attention_map.columns))
    stop = max(first, min(len(attention_map.columns), int(key[-1, -1]) + 1))
    band = attention_map.window(head, run, range(first, stop)).mean.cpu().double()
    if first == stop:
        return key.new_zeros(key.shape, dtype=torch.float64), has_key
    # offsets without a key read some other weight of the band; `has_key` leaves it out
    return band.gather(1, (key - first).clamp(0, stop - first - 1)), has_key


def _evenness(trace: Trace, attention_map: AttentionMap) -> Heads:
    """Mean entropy / log(visible keys) of the rows with several; NaN if columns were cut off."""
    if not has_every_column(trace, attention_map):
        return torch.full((attention_map.heads,), torch.nan, dtype=torch.float64)
    entropy, sink = (
        attention_map.row_statistics.entropy.cpu().double(),
        attention_map.row_statistics.on_sink.cpu(),
    )
    outcomes = attention_map.visible_counts + (sink > 0)
    several = (outcomes > 1) & attending_rows(attention_map)
    return mean_over_rows((entropy / outcomes.log()).clamp(0, 1), several)


def _mass_by_kind(trace: Trace, attention_map: AttentionMap) -> dict[str, Heads]:
    """The weight on special tokens and punctuation, and how far the sums of rows are from one."""
    unknown = torch.full((attention_map.heads,), torch.nan, dtype=torch.float64)
    if isinstance(attention_map.source, SummaryOnly):
        return dict.fromkeys(("on_special", "on_punctuation", "deviation"), unknown)
    tokens, attending = trace.tokens(attention_map.columns), attending_rows(attention_map)
    by_kind = attention_map.received(token_kinds(tokens)).by_label
    assert by_kind is not None
    # a text without punctuation or special tokens has fewer labels than there are kinds
    rows = torch.nn.functional.pad(by_kind.cpu().double(), (0, PUNCTUATION + 1 - by_kind.shape[2]))
    special, punctuation = (mean_over_rows(rows[..., n], attending) for n in (SPECIAL, PUNCTUATION))
    exact = not isinstance(attention_map.source, RecomputableWeights) or attention_map.source.exact
    known = exact and has_every_column(trace, attention_map)
    return {
        "on_special": unknown if tokens.special is None else special,
        "on_punctuation": punctuation if tokens.named else unknown,
        "deviation": _deviation(attention_map, rows.sum(dim=2), attending) if known else unknown,
    }


def _deviation(
    attention_map: AttentionMap, sums: HeadRows, attending: Bool[Tensor, "head query"]
) -> Heads:
    """The largest |1 - sum| of each head's attending rows; NaN where no row attends."""
    numbers = attention_map.row_statistics
    sums = sums + numbers.on_sink.cpu()
    # padding has no column if it was dropped from the map, and one if it was not
    missing = torch.minimum((1 - sums).abs(), (1 - sums - numbers.on_padding.cpu()).abs())
    worst = missing.masked_fill(~attending, 0.0).amax(dim=1) if sums.shape[1] else sums.sum(dim=1)
    return worst.where(worst.isfinite() & attending.any(dim=1), torch.nan)
