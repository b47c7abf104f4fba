"""Tokens that occur again in a text: the weight on their earlier copies, and on what followed."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.measures.heads import Heads, attending_rows, mean_over_rows
from regard.types import AttentionMap, Trace


@dataclass(frozen=True, eq=False)
class RepeatAttention:
    """Mean weights over the rows whose token occurred before; NaN where there is no such row."""

    rows: int
    duplicate: Heads
    """The weight on all earlier copies of the token (Wang et al. 2023, "duplicate token heads")."""
    induction: Heads
    """The weight on what followed these copies (Olsson et al. 2022, "prefix matching score")."""


@check_first_argument
def repeat_attention(trace: Trace, site: str) -> RepeatAttention:
    """How much heads attend to earlier copies of repeated tokens, and to what followed them.

    Tokens are the same if their ids are, or their texts where no ids are known. The map is read
    once, in strips of rows.

    >>> import torch
    >>> from regard.measures.repeated_tokens import repeat_attention
    >>> from regard.types import Trace
    >>> weights = torch.eye(4)
    >>> weights[2] = torch.tensor([0.25, 0.75, 0.0, 0.0])  # the second "I" looks at "love"
    >>> masses = repeat_attention(Trace.from_weights(weights, ["I", "love", "I", "see"]), "weights")
    >>> masses.rows, masses.duplicate.item(), masses.induction.item()
    (1, 0.25, 0.75)
    """
    attention_map = self_attention_map(trace, site)
    repeated, attending = rows_of_repeated_tokens(trace, site), attending_rows(attention_map)
    masses = torch.zeros(2, *attending.shape, dtype=torch.float64)
    if repeated.any():
        numbers = token_numbers(trace, attention_map)
        rows, columns = (
            torch.tensor(axis.positions) for axis in (attention_map.rows, attention_map.columns)
        )
        for run, weights in attention_map.row_strips():
            patterns = repeat_patterns(numbers, rows[run.start : run.stop], columns)
            masses[:, :, run.start : run.stop] = _mass_on_patterns(weights, patterns).cpu()
    counted = attending & repeated
    duplicate, induction = (mean_over_rows(mass, counted) for mass in masses)
    return RepeatAttention(int(counted.any(dim=0).sum()), duplicate, induction)


def self_attention_map(trace: Trace, site: str) -> AttentionMap:
    """The map of a site whose queries and keys are the same text; refused for cross-attention."""
    attention_map = trace[site]
    if attention_map.kind == "cross":
        raise InputError(
            f"{site!r} looks from one text at another; expected an encoder or decoder site, "
            "whose text can repeat itself"
        )
    return attention_map


def rows_of_repeated_tokens(trace: Trace, site: str) -> Bool[Tensor, " query"]:
    """True for the rows whose token occurred before; none where tokens are not known."""
    attention_map = trace[site]
    numbers = token_numbers(trace, attention_map)
    seen, repeated = set[int](), []
    for number in numbers.tolist():
        repeated.append(number in seen)
        seen |= {number} - {-1}  # unknown tokens never count as equal
    return torch.tensor(repeated, dtype=torch.bool)[list(attention_map.rows.positions)]


def token_numbers(trace: Trace, attention_map: AttentionMap) -> Int[Tensor, " token"]:
    """A number for each token of the stream, the same for the same tokens; -1 for unknown ones."""
    tokens = trace.streams[attention_map.rows.stream]
    if attention_map.rows.stream != attention_map.columns.stream or not (
        tokens.named or tokens.ids
    ):
        return torch.full((len(tokens),), -1)
    names: Sequence[Hashable] = tokens.ids or tokens.texts
    seen: dict[Hashable, int] = {}
    return torch.tensor([seen.setdefault(name, len(seen)) for name in names], dtype=torch.long)


def repeat_patterns(
    numbers: Int[Tensor, " token"], rows: Int[Tensor, " query"], columns: Int[Tensor, " key"]
) -> Bool[Tensor, "pattern query key"]:
    """True for keys that are earlier copies of each row's token, and for keys that followed one."""
    position, own = rows[:, None], numbers[rows, None]
    same = (numbers[columns] == own) & (columns < position)
    before = numbers[(columns - 1).clamp_min(0)]
    after = (before == own) & (columns > 0) & (columns <= position)
    return torch.stack([same, after])


def _mass_on_patterns(
    weights: Float[Tensor, "head query key"], patterns: Bool[Tensor, "pattern query key"]
) -> Float[Tensor, "pattern head query"]:
    """The weight of each row on each pattern."""
    return torch.einsum("hqk,pqk->phq", weights, patterns.to(weights))
