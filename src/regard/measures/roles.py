"""The roles of heads that papers have named, such as previous-token and induction heads.

The strength of a role, from 0 to 1, is the mean weight that a head's rows give to the keys of the
role, over the rows that have such keys: a head that does nothing else has 1. A previous-token head
that gives 0.9 of its weight to the token before has the strength 0.9 in "previous". NaN marks what
is unknown: no row has such keys, tokens have no names, or only statistics were kept.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.arguments import check_first_argument
from regard.measures.heads import (
    Heads,
    attending_rows,
    distance_profile,
    has_every_column,
    mean_over_rows,
    row_numbers,
)
from regard.measures.repeated_tokens import repeat_attention, rows_of_repeated_tokens
from regard.measures.token_kinds import PLAIN, SPECIAL, token_kinds
from regard.types import AttentionMap, SummaryOnly, Trace
from regard.types.tables import data_frame

REACH = 8  # the largest offset, in tokens, that the role "offset" considers


@dataclass(frozen=True)
class Role:
    """The leading role of a head and its strength; for "offset" also the offset, ahead positive."""

    name: str
    strength: float
    offset: int | None = None


class LeadingRoles(tuple[Role | None, ...]):
    """The leading role of each head of a site: a tuple with a short repr and a table."""

    __slots__ = ()

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with one row per head: role, strength and offset."""
        known = [role or Role("", math.nan) for role in self]
        return data_frame(
            {
                "head": list(range(len(self))),
                "role": [role.name or None for role in known],
                "strength": [role.strength for role in known],
                "offset": [role.offset for role in known],
            }
        )

    def __repr__(self) -> str:
        named = [f"{role.name} {role.strength:.0%}" if role else "unknown" for role in self]
        return f"<LeadingRoles: {', '.join(named)}>"


@check_first_argument
def roles(trace: Trace, site: str) -> Mapping[str, Heads]:
    """The strength of each role for each head.

    - previous, next, self: the weight on the token before, after and itself (Clark et al. 2019,
      section 3.1; Voita et al. 2019, section 5.1, "positional heads").
    - first: the weight on the first key, over rows that see other keys too (a sink; Xiao et al.
      2024).
    - delimiter: the weight on special tokens and punctuation other than the first key (Clark et al.
      2019, section 3.2).
    - offset: the weight at the best other offset, up to 8 tokens away, that half of the rows have
      (Raganato and Tiedemann 2018; Voita et al. 2019).
    - local: the weight within one token, previous + self + next.
    - broad: the sum over rows of exp(entropy) - 1, over that of the keys they may see - 1; 1 for
      even rows and 0 for rows of one key (Clark et al. 2019, section 3.3, "broad attention").
    - duplicate: from a token to earlier ones like it (Wang et al. 2023).
    - induction: from a token to what followed an earlier one like it (Elhage et al. 2021; Olsson
      et al. 2022, "prefix matching").
    - aligner, of cross maps: how one-to-one and how confident its links are; see `aligner`.

    >>> import torch
    >>> from regard.measures.roles import roles
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> strengths = roles(Trace.from_weights(weights, ["我", "爱", "你"]), "weights")
    >>> strengths["previous"], strengths["induction"]
    (tensor([1.], dtype=torch.float64), tensor([nan], dtype=torch.float64))
    """
    attention_map = trace[site]
    unknown = torch.full((attention_map.heads,), torch.nan, dtype=torch.float64)
    strengths = dict.fromkeys(NAMES, unknown)
    strengths |= {
        "broad": _broad_strength(trace, attention_map),
        "first": _first_key_strength(attention_map),
    }
    if attention_map.kind == "cross":
        strengths["aligner"] = aligner(trace, site)
    else:
        strengths |= _neighbour_strengths(attention_map)
    if isinstance(attention_map.source, SummaryOnly):
        return strengths
    strengths["delimiter"] = _delimiter_strength(trace, attention_map)
    if attention_map.kind != "cross":
        copies = repeat_attention(trace, site)
        strengths |= {"duplicate": copies.duplicate, "induction": copies.induction}
        strengths["offset"] = best_offsets(trace, site)[0]
    return strengths


NAMES = (
    "previous",
    "next",
    "self",
    "first",
    "delimiter",
    "offset",
    "local",
    "broad",
    "duplicate",
    "induction",
    "aligner",
)


@check_first_argument
def leading_roles(trace: Trace, site: str) -> LeadingRoles:
    """The role of each head that accounts for most of its weight; None where nothing is known.

    Strengths are compared as they are, except these: "local" contains previous, self and next, and
    leads only by what it has beyond the best of them; duplicate, induction and offset count by
    their weight over all rows, since one repeated token does not make a role.

    >>> import torch
    >>> from regard.measures.roles import leading_roles
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.1, 0.1], [0.0, 0.9, 0.1]])
    >>> leading_roles(Trace.from_weights(weights, ["我", "爱", "你"]), "weights")
    <LeadingRoles: previous 85%>
    """
    strengths = roles(trace, site)
    offsets = _offsets_or_zero(trace, site)
    rivals = dict(strengths)
    single = torch.stack([strengths[name] for name in ("previous", "self", "next")]).amax(dim=0)
    rivals["local"] = rivals["local"] - single
    rivals["offset"] = rivals["offset"] * _share_of_offsets(trace[site], offsets)
    for name in ("duplicate", "induction"):
        rivals[name] = rivals[name] * rows_of_repeated_tokens(trace, site).double().mean()
    best = torch.stack([rivals[name] for name in NAMES]).nan_to_num(nan=-1.0).argmax(dim=0)
    leading = list[Role | None]()
    for head, name in enumerate(NAMES[number] for number in best.tolist()):
        strength = float(strengths[name][head])
        ahead = offsets[head] if name == "offset" else None
        leading.append(None if math.isnan(strength) else Role(name, strength, ahead))
    return LeadingRoles(leading)


@check_first_argument
def best_offsets(trace: Trace, site: str, reach: int = REACH) -> tuple[Heads, Int[Tensor, " head"]]:
    """The largest mean weight at one offset other than -1, 0 and 1, and that offset, of each head.

    Only offsets count at which at least half of the rows have a key; NaN and 0 without any.
    """
    attention_map = trace[site]
    profile = distance_profile(trace, site, reach)
    ahead = torch.arange(-reach, reach + 1)
    position = torch.arange(len(attention_map.rows)) + attention_map.offset
    key = position[:, None] + ahead
    has_key = (key >= 0) & (key < len(attention_map.columns))
    common = has_key.sum(dim=0) * 2 >= max(1, len(position))
    profile = profile.masked_fill(~(common & (ahead.abs() > 1)), torch.nan)
    largest, best = profile.nan_to_num(nan=-1.0).max(dim=1)
    unknown = largest < 0
    return largest.masked_fill(unknown, torch.nan), ahead[best].masked_fill(unknown, 0)


@check_first_argument
def aligner(trace: Trace, site: str) -> Heads:
    """How much a cross head resembles word alignment: confident, and of one source word at a time.

    The mean largest weight, counted where it falls on a token that is not special, times the share
    of tokens that are some row's largest: |{argmax_i}| / min(rows, columns). The first says how
    concentrated the rows are (Ghader and Monz 2017 use entropy), the second is Melamed's (2000)
    one-to-one assumption as a number; neither requires the words to be in the same order. Rows that
    predict a special token, such as the end of the text, do not count.
    """
    attention_map = trace[site]
    kinds = token_kinds(trace.tokens(attention_map.columns))
    key = attention_map.row_statistics.largest_key.cpu().long()
    counted = attending_rows(attention_map)
    if attention_map.produced is not None:
        counted = counted & (token_kinds(trace.tokens(attention_map.produced)) != SPECIAL)
    on_word = counted & (key >= 0) & (kinds[key.clamp_min(0)] != SPECIAL)
    confidence = mean_over_rows(
        attention_map.row_statistics.largest.cpu().double().where(on_word, 0.0), counted
    )
    # one more column takes the rows that count for no word; it is dropped below
    chosen = torch.zeros(attention_map.heads, len(kinds) + 1, dtype=torch.double)
    chosen.scatter_(1, key.where(on_word, torch.tensor(len(kinds))), 1.0)
    words = int((kinds != SPECIAL).sum())
    return confidence * chosen[:, :-1].sum(dim=1) / counted.sum(dim=1).clamp(max=words)


def _offsets_or_zero(trace: Trace, site: str) -> list[int]:
    """The best offset of each head, 0 where offsets are unknown."""
    attention_map = trace[site]
    if attention_map.kind == "cross" or isinstance(attention_map.source, SummaryOnly):
        return [0] * attention_map.heads
    return [int(ahead) for ahead in best_offsets(trace, site)[1]]


def _share_of_offsets(attention_map: AttentionMap, offsets: list[int]) -> Heads:
    """The share of rows that have a key at each head's best offset."""
    return torch.stack([_has_key(attention_map, ahead).double().mean() for ahead in offsets])


def _neighbour_strengths(attention_map: AttentionMap) -> dict[str, Heads]:
    """The strengths of previous, self, next and local, by name."""
    rows, attending = row_numbers(attention_map), attending_rows(attention_map)
    names = {"previous": -1, "self": 0, "next": 1}
    strengths = {
        name: mean_over_rows(rows[f"on_{name}"], attending & _has_key(attention_map, ahead))
        for name, ahead in names.items()
    }
    near = rows["on_previous"] + rows["on_self"] + rows["on_next"]
    return strengths | {"local": mean_over_rows(near, attending)}


def _has_key(attention_map: AttentionMap, ahead: int) -> Bool[Tensor, " query"]:
    """True for the rows that have a key `ahead` tokens after their own position."""
    key = torch.arange(len(attention_map.rows)) + attention_map.offset + ahead
    return (key >= 0) & (key < len(attention_map.columns))


def _first_key_strength(attention_map: AttentionMap) -> Heads:
    """The mean weight on the first key, over the rows that see other keys too."""
    several = attending_rows(attention_map) & (attention_map.visible_counts > 1)
    return mean_over_rows(attention_map.row_statistics.on_first.cpu().double(), several)


def _broad_strength(trace: Trace, attention_map: AttentionMap) -> Heads:
    """How evenly rows spread over the keys they may see; NaN where columns were cut off."""
    if not has_every_column(trace, attention_map):
        return torch.full((attention_map.heads,), torch.nan, dtype=torch.float64)
    others = (
        attention_map.visible_counts + (attention_map.row_statistics.on_sink.cpu() > 0) - 1
    ).clamp_min(0) * attending_rows(attention_map)
    spread = (
        (attention_map.row_statistics.entropy.cpu().double().exp() - 1)
        .minimum(others)
        .where(others > 0, 0.0)
    )
    return spread.sum(dim=1) / others.sum(dim=1)


def _delimiter_strength(trace: Trace, attention_map: AttentionMap) -> Heads:
    """The mean weight on special tokens and punctuation; NaN where the text has none."""
    tokens = trace.tokens(attention_map.columns)
    kinds = token_kinds(tokens)
    kinds[:1] = PLAIN  # weight on the first key is the role "first"
    mass: Float[Tensor, "head query label"] | None = None
    if tokens.named and (kinds != PLAIN).any():
        mass = attention_map.received((kinds == PLAIN).long()).by_label
    if mass is None:
        return torch.full((attention_map.heads,), torch.nan, dtype=torch.float64)
    return mean_over_rows(mass[..., 0].cpu().double(), attending_rows(attention_map))
