"""The head detector of TransformerLens: the share of a head's weight on a pattern of keys."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import UnknownNameError
from regard.measures.heads import Heads
from regard.measures.repeated_tokens import repeat_patterns, self_attention_map, token_numbers
from regard.types import Trace

ROLES = ("previous", "duplicate", "induction")


@check_first_argument
def pattern_share(
    trace: Trace,
    site: str,
    role: str,
    *,
    without_first: bool = False,
    without_self: bool = False,
) -> Heads:
    """The share of each head's weight on the keys of "previous", "duplicate" or "induction".

    It is `detect_head` of TransformerLens (Nanda and Bloom 2022) with its measure "mul", for maps
    of any length: the sum of weights x pattern over the sum of weights. All rows count, also those
    without such a key, whereas `roles` averages over rows with one. `without_first` and
    `without_self` leave the first key and the diagonal out of both sums.

    >>> import torch
    >>> from regard.measures.head_detector import pattern_share
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> pattern_share(Trace.from_weights(weights, ["我", "爱", "你"]), "weights", "previous")
    tensor([0.6667], dtype=torch.float64)
    """
    if role not in ROLES:
        raise UnknownNameError("role to detect", role, ROLES)
    attention_map = self_attention_map(trace, site)
    numbers = token_numbers(trace, attention_map)
    if role != "previous" and (numbers < 0).any():
        return torch.full((attention_map.heads,), torch.nan, dtype=torch.float64)
    rows, columns = (
        torch.tensor(axis.positions) for axis in (attention_map.rows, attention_map.columns)
    )
    on_pattern = torch.zeros(attention_map.heads, dtype=torch.float64)
    total = torch.zeros_like(on_pattern)
    for run, weights in attention_map.row_strips():
        positions = rows[run.start : run.stop]
        counted = torch.ones(len(positions), len(columns), dtype=torch.bool)
        counted[:, :1] &= not without_first
        counted &= (columns != positions[:, None]) | (not without_self)
        mass = weights.cpu().double() * counted
        on_pattern += (mass * _keys_of_role(role, numbers, positions, columns)).sum(dim=(1, 2))
        total += mass.sum(dim=(1, 2))
    return on_pattern / total


def _keys_of_role(
    role: str,
    numbers: Int[Tensor, " token"],
    rows: Int[Tensor, " query"],
    columns: Int[Tensor, " key"],
) -> Bool[Tensor, "query key"]:
    """True for the keys that a head of this role attends to; `numbers` identify equal tokens."""
    if role == "previous":
        return columns == rows[:, None] - 1
    return repeat_patterns(numbers, rows, columns)[ROLES.index(role) - 1]
