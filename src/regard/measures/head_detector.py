"""The share of all of a head's weight that lies where a role would have it."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import UnknownNameError
from regard.measures.heads import Heads
from regard.measures.repeated_tokens import repeat_patterns, self_attention_map, token_numbers
from regard.types import Trace

ROLES = ("previous", "duplicate", "induction")


def pattern_share(
    trace: Trace,
    site: str,
    role: str,
    *,
    without_first: bool = False,
    without_self: bool = False,
) -> Heads:
    """The share of each head's weight on the keys of "previous", "duplicate" or "induction".

    The head detector of TransformerLens (Nanda and Bloom 2022) with its measure "mul", for maps of
    any length: sum of weights x pattern / sum of weights, over all rows, also those that have no
    such key; `without_first` and `without_self` take the first key and the diagonal out of both
    sums. `roles` divides by the rows that have such keys instead.

    >>> import torch
    >>> from regard.measures.head_detector import pattern_share
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> pattern_share(Trace.from_weights(weights, ["我", "爱", "你"]), "weights", "previous")
    tensor([0.6667], dtype=torch.float64)
    """
    if role not in ROLES:
        raise UnknownNameError("role to detect", role, ROLES)
    each = self_attention_map(trace, site)
    numbers = token_numbers(trace, each)
    if role != "previous" and (numbers < 0).any():
        return torch.full((each.heads,), torch.nan, dtype=torch.float64)
    rows, columns = (torch.tensor(axis.positions) for axis in (each.rows, each.columns))
    found = torch.zeros(each.heads, dtype=torch.float64)
    whole = torch.zeros_like(found)
    for run, weights in each.row_strips():
        own = rows[run.start : run.stop]
        left = torch.ones(len(own), len(columns), dtype=torch.bool)
        left[:, :1] &= not without_first
        left &= (columns != own[:, None]) | (not without_self)
        mass = weights.cpu().double() * left
        found += (mass * _pattern(role, numbers, own, columns)).sum(dim=(1, 2))
        whole += mass.sum(dim=(1, 2))
    return found / whole


def _pattern(
    role: str,
    numbers: Int[Tensor, " token"],
    rows: Int[Tensor, " query"],
    columns: Int[Tensor, " key"],
) -> Bool[Tensor, "query key"]:
    if role == "previous":
        return columns == rows[:, None] - 1
    return repeat_patterns(numbers, rows, columns)[ROLES.index(role) - 1]
