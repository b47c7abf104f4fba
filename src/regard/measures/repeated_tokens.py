"""Tokens that come again in a text: how much heads look at earlier ones, and at what followed."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import InputError
from regard.measures.heads import Heads, attending_rows, mean_over_rows
from regard.types import AttentionMap, Trace


@dataclass(frozen=True, eq=False)
class RepeatAttention:
    """Mean masses over the rows whose token has been in the text before; NaN where none has."""

    rows: int
    duplicate: Heads
    """On all earlier tokens that are the same (Wang et al. 2023, "duplicate token heads")."""
    induction: Heads
    """On the tokens that followed these (Olsson et al. 2022, "prefix matching score")."""


def repeat_attention(trace: Trace, site: str) -> RepeatAttention:
    """Where heads look from tokens that came before in the same text.

    Tokens are the same if their ids are, or their texts where no ids are known. The map is walked
    over once, in strips of rows.

    >>> import torch
    >>> from regard.measures.repeated_tokens import repeat_attention
    >>> from regard.types import Trace
    >>> weights = torch.eye(4)
    >>> weights[2] = torch.tensor([0.25, 0.75, 0.0, 0.0])  # the second "I" looks at "love"
    >>> found = repeat_attention(Trace.from_weights(weights, ["I", "love", "I", "see"]), "weights")
    >>> found.rows, found.duplicate.item(), found.induction.item()
    (1, 0.25, 0.75)
    """
    each = self_attention_map(trace, site)
    again, live = rows_of_repeated_tokens(trace, site), attending_rows(each)
    masses = torch.zeros(2, *live.shape, dtype=torch.float64)
    if again.any():
        numbers = token_numbers(trace, each)
        rows, columns = (torch.tensor(axis.positions) for axis in (each.rows, each.columns))
        for run, weights in each.row_strips():
            patterns = repeat_patterns(numbers, rows[run.start : run.stop], columns)
            masses[:, :, run.start : run.stop] = _on(weights, patterns).cpu()
    which = live & again
    duplicate, induction = (mean_over_rows(mass, which) for mass in masses)
    return RepeatAttention(int(which.any(dim=0).sum()), duplicate, induction)


def self_attention_map(trace: Trace, site: str) -> AttentionMap:
    """The map of a text that looks at itself; refused for others."""
    each = trace[site]
    if each.kind == "cross":
        raise InputError(
            f"{site!r} looks from one text at another; expected an encoder or decoder site, "
            "whose text can repeat itself"
        )
    return each


def rows_of_repeated_tokens(trace: Trace, site: str) -> Bool[Tensor, " query"]:
    """The rows whose token has been in the text before; none where the tokens are not known."""
    each = trace[site]
    numbers = token_numbers(trace, each)
    seen, found = set[int](), []
    for number in numbers.tolist():
        found.append(number in seen)
        seen |= {number} - {-1}
    return torch.tensor(found, dtype=torch.bool)[list(each.rows.positions)]


def token_numbers(trace: Trace, each: AttentionMap) -> Int[Tensor, " token"]:
    """A number for each token of the stream, the same for the same tokens; -1 for unknown ones."""
    tokens = trace.streams[each.rows.stream]
    if each.rows.stream != each.columns.stream or not (tokens.named or tokens.ids):
        return torch.full((len(tokens),), -1)
    names: Sequence[Hashable] = tokens.ids or tokens.texts
    seen: dict[Hashable, int] = {}
    return torch.tensor([seen.setdefault(name, len(seen)) for name in names], dtype=torch.long)


def repeat_patterns(
    numbers: Int[Tensor, " token"], rows: Int[Tensor, " query"], columns: Int[Tensor, " key"]
) -> Bool[Tensor, "pattern query key"]:
    """The keys that are earlier tokens like each row's own, and those that followed such tokens."""
    place, own = rows[:, None], numbers[rows, None]
    same = (numbers[columns] == own) & (columns < place)
    before = numbers[(columns - 1).clamp_min(0)]
    after = (before == own) & (columns > 0) & (columns <= place)
    return torch.stack([same, after])


def _on(
    weights: Float[Tensor, "head query key"], patterns: Bool[Tensor, "pattern query key"]
) -> Float[Tensor, "pattern head query"]:
    """The mass of each row on each pattern."""
    return torch.einsum("hqk,pqk->phq", weights, patterns.to(weights))
