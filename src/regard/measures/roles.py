"""What each head of a site is for: scores from 0 to 1 for the roles that papers have named.

A score is the mean mass that a head's rows give to the keys that the role is about, over the rows
that have such keys, so that a head that does nothing else has 1. NaN is what cannot be said: where
no row has such keys, tokens are not known, or the weights are gone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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

REACH = 8


@dataclass(frozen=True)
class Role:
    """The role that fits a head best, its score, and for "offset" how far ahead the head looks."""

    name: str
    score: float
    offset: int | None = None


def roles(trace: Trace, site: str) -> Mapping[str, Heads]:
    """The score of each role for each head.

    - previous, next, self: the mass on the token before, after and itself (Clark et al. 2019,
      section 3.1; Voita et al. 2019, section 5.1, "positional heads").
    - first: the mass on the first key, of rows that may see others (a sink; Xiao et al. 2024).
    - delimiter: the mass on special tokens and punctuation other than the first key (Clark et al.
      2019, section 3.2).
    - offset: the mass at the best other offset, up to 8 tokens away, that half of the rows have
      (Raganato and Tiedemann 2018; Voita et al. 2019).
    - local: the mass within one token, previous + self + next.
    - broad: the sum over rows of exp(entropy) - 1, over that of the keys they may see - 1; 1 for
      even rows and 0 for rows of one key (Clark et al. 2019, section 3.3, "broad attention").
    - duplicate: from a token to earlier ones like it (Wang et al. 2023).
    - induction: from a token to what followed an earlier one like it (Elhage et al. 2021; Olsson
      et al. 2022, "prefix matching").
    - aligner, of cross maps: how one-to-one and sure its links are; see `aligner`.

    >>> import torch
    >>> from regard.measures.roles import roles
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> found = roles(Trace.from_weights(weights, ["我", "爱", "你"]), "weights")
    >>> found["previous"], found["induction"]
    (tensor([1.], dtype=torch.float64), tensor([nan], dtype=torch.float64))
    """
    each = trace[site]
    unknown = torch.full((each.heads,), torch.nan, dtype=torch.float64)
    found = dict.fromkeys(NAMES, unknown)
    found |= {"broad": _broad(trace, each), "first": _first(each)}
    if each.kind == "cross":
        found["aligner"] = aligner(trace, site)
    else:
        found |= _neighbours(each)
    if isinstance(each.source, SummaryOnly):
        return found
    found["delimiter"] = _delimiter(trace, each)
    if each.kind != "cross":
        copies = repeat_attention(trace, site)
        found |= {"duplicate": copies.duplicate, "induction": copies.induction}
        found["offset"] = best_offsets(trace, site)[0]
    return found


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


def leading_roles(trace: Trace, site: str) -> tuple[Role | None, ...]:
    """The role of each head that accounts for most of its weight; None where nothing is known.

    The scores compete as they are, but for these: local attention holds three roles of one key each
    and leads by what it has beyond the best of them; duplicate, induction and offset lead by their
    mass over all rows, as one repeated token does not make a role.

    >>> import torch
    >>> from regard.measures.roles import leading_roles
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.1, 0.1], [0.0, 0.9, 0.1]])
    >>> leading_roles(Trace.from_weights(weights, ["我", "爱", "你"]), "weights")[0].name
    'previous'
    """
    scores = roles(trace, site)
    offsets = _offsets(trace, site)
    rivals = dict(scores)
    single = torch.stack([scores[name] for name in ("previous", "self", "next")]).amax(dim=0)
    rivals["local"] = rivals["local"] - single
    rivals["offset"] = rivals["offset"] * _share_of_offsets(trace[site], offsets)
    for name in ("duplicate", "induction"):
        rivals[name] = rivals[name] * rows_of_repeated_tokens(trace, site).double().mean()
    best = torch.stack([rivals[name] for name in NAMES]).nan_to_num(nan=-1.0).argmax(dim=0)
    found = []
    for head, name in enumerate(NAMES[number] for number in best.tolist()):
        score = float(scores[name][head])
        ahead = offsets[head] if name == "offset" else None
        found.append(None if math.isnan(score) else Role(name, score, ahead))
    return tuple(found)


def best_offsets(trace: Trace, site: str, reach: int = REACH) -> tuple[Heads, Int[Tensor, " head"]]:
    """The largest mean mass at one offset other than -1, 0 and 1, and that offset.

    Only offsets count at which half of the rows or more have a key. NaN and 0 where there is none.
    """
    each = trace[site]
    profile = distance_profile(trace, site, reach)
    ahead = torch.arange(-reach, reach + 1)
    place = torch.arange(len(each.rows)) + each.offset
    key = place[:, None] + ahead
    common = ((key >= 0) & (key < len(each.columns))).sum(dim=0) * 2 >= max(1, len(place))
    profile = profile.masked_fill(~(common & (ahead.abs() > 1)), torch.nan)
    score, best = profile.nan_to_num(nan=-1.0).max(dim=1)
    nothing = score < 0
    return score.masked_fill(nothing, torch.nan), ahead[best].masked_fill(nothing, 0)


def aligner(trace: Trace, site: str) -> Heads:
    """How much a cross head looks like word alignment: sure of one source word, and of all in turn.

    The mean largest weight, counted where it falls on a token that is not special, times the share
    of tokens that are some row's largest: |{argmax_i}| / min(rows, columns). The first says how
    concentrated the rows are (Ghader and Monz 2017 ask it by entropy), the second is Melamed's
    (2000) one-to-one assumption as a number; neither asks for the order of the words to be the
    same. Rows that lead to a special token, as to the end of the text, do not count.
    """
    each = trace[site]
    kinds = token_kinds(trace.tokens(each.columns))
    key = each.row_statistics.largest_key.cpu().long()
    counted = attending_rows(each)
    if each.produced is not None:
        counted = counted & (token_kinds(trace.tokens(each.produced)) != SPECIAL)
    on_word = counted & (key >= 0) & (kinds[key.clamp_min(0)] != SPECIAL)
    sure = mean_over_rows(each.row_statistics.largest.cpu().double().where(on_word, 0.0), counted)
    chosen = torch.zeros(each.heads, len(kinds) + 1, dtype=torch.double)
    chosen.scatter_(1, key.where(on_word, torch.tensor(len(kinds))), 1.0)
    words = int((kinds != SPECIAL).sum())
    return sure * chosen[:, :-1].sum(dim=1) / counted.sum(dim=1).clamp(max=words)


def _offsets(trace: Trace, site: str) -> list[int]:
    each = trace[site]
    if each.kind == "cross" or isinstance(each.source, SummaryOnly):
        return [0] * each.heads
    return [int(ahead) for ahead in best_offsets(trace, site)[1]]


def _share_of_offsets(each: AttentionMap, offsets: list[int]) -> Heads:
    """The share of rows that have a key at each head's offset."""
    return torch.stack([_has_key(each, ahead).double().mean() for ahead in offsets])


def _neighbours(each: AttentionMap) -> dict[str, Heads]:
    rows, live = row_numbers(each), attending_rows(each)
    names = {"previous": -1, "self": 0, "next": 1}
    found = {
        name: mean_over_rows(rows[f"on_{name}"], live & _has_key(each, ahead))
        for name, ahead in names.items()
    }
    near = rows["on_previous"] + rows["on_self"] + rows["on_next"]
    return found | {"local": mean_over_rows(near, live)}


def _has_key(each: AttentionMap, ahead: int) -> Bool[Tensor, " query"]:
    key = torch.arange(len(each.rows)) + each.offset + ahead
    return (key >= 0) & (key < len(each.columns))


def _first(each: AttentionMap) -> Heads:
    several = attending_rows(each) & (each.visible_counts > 1)
    return mean_over_rows(each.row_statistics.on_first.cpu().double(), several)


def _broad(trace: Trace, each: AttentionMap) -> Heads:
    if not has_every_column(trace, each):
        return torch.full((each.heads,), torch.nan, dtype=torch.float64)
    others = (each.visible_counts + (each.row_statistics.on_sink.cpu() > 0) - 1).clamp_min(
        0
    ) * attending_rows(each)
    spread = (
        (each.row_statistics.entropy.cpu().double().exp() - 1)
        .minimum(others)
        .where(others > 0, 0.0)
    )
    return spread.sum(dim=1) / others.sum(dim=1)


def _delimiter(trace: Trace, each: AttentionMap) -> Heads:
    tokens = trace.tokens(each.columns)
    kinds = token_kinds(tokens)
    kinds[:1] = PLAIN
    mass: Float[Tensor, "head query label"] | None = None
    if tokens.named and (kinds != PLAIN).any():
        mass = each.received((kinds == PLAIN).long()).by_label
    if mass is None:
        return torch.full((each.heads,), torch.nan, dtype=torch.float64)
    return mean_over_rows(mass[..., 0].cpu().double(), attending_rows(each))
