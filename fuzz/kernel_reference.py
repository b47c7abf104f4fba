"""What the kernels should return, in plain float64 with every weight in hand.

Besides the numbers, the reference says for each row how exact they can be. A score is a sum of
products: it carries a rounding error in proportion to the size of its terms, and so do the weights
of its row. `error` is that bound; where it is too large to say anything, or where the terms leave
the range of float32, the row is `unknown` and only its shape is compared.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fuzz.kernel_cases import AttentionCase, distances

# The rounding of one operation, times the operations that a number goes through.
STEPS = 40
LIMITS = {torch.float64: 1e290}  # of the terms of a score; beyond, a row is unknown
LIMIT = 1e36
LARGEST_ERROR = 0.02


@dataclass
class Reference:
    """The whole map of a call, with the axes batch, head, query, key, and numbers of each row."""

    weights: Tensor
    lse: Tensor
    error: Tensor
    undefined: Tensor
    unknown: Tensor
    statistics: dict[str, Tensor]


def attention_reference(case: AttentionCase) -> Reference:
    """The map and the statistics of a call."""
    scores = _scores(case)
    keys, terms = case.sizes[3], case.terms
    sink = torch.full((*scores.shape[:3], 1), -math.inf, dtype=torch.float64)
    if terms["sink"] is not None:
        sink = terms["sink"].double()[None, :, None, None].expand_as(sink)
    joined = torch.cat([scores, sink], -1)
    undefined = (joined.isnan() | (joined == math.inf)).any(-1)
    error, unknown = _errors(case, joined)
    lse = torch.logsumexp(joined.nan_to_num(nan=0.0, posinf=0.0, neginf=-math.inf), -1)
    level = lse.masked_fill(lse == -math.inf, 0.0)[..., None]
    shares = (joined - level).exp().masked_fill(undefined[..., None], math.nan)
    statistics = _statistics(case, shares[..., :keys])
    statistics["on_sink"] = shares[..., keys]
    statistics["entropy"] = -torch.xlogy(shares, shares).sum(-1)
    statistics = {k: v.masked_fill(undefined, math.nan) for k, v in statistics.items()}
    lse = lse.masked_fill(undefined, math.nan)
    unknown = unknown & ~undefined
    return Reference(shares[..., :keys], lse, error, undefined, unknown, statistics)


def _scores(case: AttentionCase) -> Tensor:
    """Scaled, capped, biased and masked scores."""
    group = case.sizes[1] // case.key.shape[1]
    key = case.key.double().repeat_interleave(group, 1)
    scores = case.query.double() @ key.mT * _scale(case)
    cap = case.terms["softcap"]
    if cap is not None and cap != math.inf:
        scores = cap * torch.tanh(scores / cap)
    return (scores + case.added.double()).masked_fill(~case.seen, -math.inf)


def _scale(case: AttentionCase) -> float:
    """The factor of the products."""
    scale = case.terms["scale"]
    return 1 / math.sqrt(max(1, case.query.shape[3])) if scale is None else scale


def _errors(case: AttentionCase, joined: Tensor) -> tuple[Tensor, Tensor]:
    """How far the numbers of each row may be off, and which rows are unknown."""
    dtype, keys = case.query.dtype, case.sizes[3]
    exact = dtype == torch.float64
    unit = 2.0**-53 if exact else 2.0**-24
    terms = _terms(case)
    finite = joined.masked_fill(~joined.isfinite(), -math.inf)
    # Only keys with a weight that counts: a score of the lowest float is as good as hidden.
    counts = finite >= finite.amax(-1, keepdim=True) - 200
    size = terms + case.added.double().abs().nan_to_num(posinf=0.0)
    size = F.pad(size.expand(*joined.shape[:3], keys), (0, 1)) + joined.abs()
    size = size.nan_to_num(posinf=0.0).masked_fill(~counts, 0.0).amax(-1)
    error = unit * (STEPS * (1 + size) + keys)  # sums over keys round once for each of them
    limit = LIMITS.get(dtype, LIMIT)
    shown = terms.masked_fill(~case.seen.expand(terms.shape), 0.0)
    beyond = (shown > limit).any(-1) | (size > limit) | (joined[..., keys].abs() > limit)
    return error, beyond | (error > LARGEST_ERROR)


def _terms(case: AttentionCase) -> Tensor:
    """The sum over dim of |query key| for each pair, scaled; infinite numbers count as 0."""
    group = case.sizes[1] // case.key.shape[1]
    query = case.query.double().abs().nan_to_num(posinf=0.0)
    key = case.key.double().abs().nan_to_num(posinf=0.0).repeat_interleave(group, 1)
    return query @ key.mT * max(abs(_scale(case)), 1e-3)


def _statistics(case: AttentionCase, weights: Tensor) -> dict[str, Tensor]:
    """The sums over parts of each row."""
    ahead = distances(case.sizes, case.terms["offset"])
    nothing = torch.zeros(1, dtype=torch.bool)
    padded = nothing if case.padded is None else case.padded[:, None, None]
    none = weights.new_zeros(weights.shape[:3])
    parts = {
        "on_self": ahead == 0,
        "on_previous": ahead == -1,
        "on_next": ahead == 1,
        "on_future": ahead > 0,
        "on_padding": padded,
    }
    return {
        "largest": weights.amax(-1) if weights.shape[3] else none,
        "on_first": weights[..., 0] if weights.shape[3] else none,
        "distance": (weights * ahead.double().abs()).sum(-1),
        **{name: (weights * part.double()).sum(-1) for name, part in parts.items()},
    }


def pooled(numbers: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Sum and maximum over cells of rows x columns of the last two axes."""
    missing = (0, -numbers.shape[-1] % columns, 0, -numbers.shape[-2] % rows)
    cells = F.pad(numbers, missing).unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))
    return cells.sum((-3, -1)), cells.amax((-3, -1))
