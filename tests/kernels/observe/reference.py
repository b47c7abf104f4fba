"""What the kernels should give, in plain float64 with the whole map of weights in hand."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe.call import Call


@dataclass
class Reference:
    weights: Tensor
    sink: Tensor
    lse: Tensor
    context: Tensor
    numbers: dict[str, Tensor]


def reference(call: Call) -> Reference:
    scores = masked_scores(call)
    batch, heads, queries, keys = call.sizes
    sink = torch.full((batch, heads, queries, 1), -math.inf, dtype=torch.float64)
    if call.scoring.sink is not None:
        sink = call.scoring.sink.double()[None, :, None, None].expand_as(sink)
    joined = torch.cat([scores, sink], -1)
    lse = torch.logsumexp(joined.detach(), -1)
    empty = (lse == -math.inf)[..., None]
    shares = torch.softmax(joined.masked_fill(empty, 0), -1).masked_fill(empty, 0)
    weights = shares[..., :keys]
    value = call.value.double().repeat_interleave(call.group, 1)
    numbers = {"entropy": -torch.xlogy(shares, shares).sum(-1), "on_sink": shares[..., keys]}
    numbers |= _places(call, weights)
    return Reference(weights, shares[..., keys:], lse, weights @ value, numbers)


def masked_scores(call: Call) -> Tensor:
    scoring, key = call.scoring, call.key.double().repeat_interleave(call.group, 1)
    scores = call.query.double() @ key.mT * call.scale
    if scoring.softcap is not None:
        scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
    if scoring.bias is not None:
        scores = scores + scoring.bias.dense(*call.sizes[2:], offset=scoring.offset).double()
    if scoring.mask is not None:
        seen = scoring.mask.dense(*call.sizes[2:], offset=scoring.offset)
        scores = scores.masked_fill(~seen, -math.inf)
    return scores


def rounding(call: Call, lse: Tensor) -> float:
    """How much coarser than one unit the scores are rounded, and so the weights.

    A score carries rounding in proportion to its size and, where the terms of its product cancel,
    to theirs.
    """
    key = call.key.detach().double().abs().repeat_interleave(call.group, 1)
    terms = (call.query.detach().double().abs() @ key.mT * call.scale).max().item()
    return lse.nan_to_num(neginf=0.0).abs().clamp(min=1.0).max().item() + terms / 100


def _places(call: Call, weights: Tensor) -> dict[str, Tensor]:
    queries, keys = call.sizes[2:]
    ahead = torch.arange(keys) - (torch.arange(queries) + call.scoring.offset)[:, None]
    padded = torch.zeros(call.sizes[0], keys) if call.padded is None else call.padded
    return {
        "largest": weights.amax(-1),
        "distance": (weights * ahead.abs()).sum(-1),
        "on_first": weights[..., 0],
        "on_self": (weights * (ahead == 0)).sum(-1),
        "on_previous": (weights * (ahead == -1)).sum(-1),
        "on_next": (weights * (ahead == 1)).sum(-1),
        "on_future": (weights * (ahead > 0)).sum(-1),
        "on_padding": (weights * padded[:, None, None].double()).sum(-1),
    }


def pooled(weights: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Mean and maximum over cells; a partial cell's mean is over the pairs that exist."""
    down, across = -weights.shape[-2] % rows, -weights.shape[-1] % columns
    filled = F.pad(weights, (0, across, 0, down))
    there = F.pad(torch.ones_like(weights), (0, across, 0, down))
    cells, count = (
        t.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows)) for t in (filled, there)
    )
    return cells.sum((-3, -1)) / count.sum((-3, -1)), cells.amax((-3, -1))
