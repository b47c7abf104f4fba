"""Full matrices of weights: of a call, and the statistics of weights that are given as a tensor."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe.call import Call, Keys, Queries, Scoring
from regard.kernels.observe.observation import Atlas, Statistics, Top
from regard.kernels.observe.region import cell_counts
from regard.kernels.observe.strips import cap_scores
from regard.masks import Area

Weights = Float[Tensor, "*batch head query key"]


def weigh(query: Queries, key: Keys, scoring: Scoring) -> Float[Tensor, "batch head query key"]:
    """All weights of a call as one tensor, differentiable; a row that sees nothing is zeros.

    >>> import torch
    >>> from regard.kernels.observe import Scoring
    >>> from regard.kernels.observe.full_weights import weigh
    >>> weigh(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 4, 2), Scoring())
    tensor([[[[0.2500, 0.2500, 0.2500, 0.2500]]]])
    """
    call = Call(query, key, key, scoring)
    scoring = call.scoring
    _, _, queries, keys = call.sizes
    key = key.repeat_interleave(call.group, dim=1).to(call.accumulator)
    scores = cap_scores((query.to(call.accumulator) * call.scale) @ key.mT, scoring.softcap)
    area = Area(range(queries), range(keys), scoring.offset, scores.device)
    if scoring.bias is not None:
        scores = scores + scoring.bias.cut(area)
    if scoring.mask is not None:
        scores = scores.masked_fill(~scoring.mask.cut(area), -torch.inf)
    if scoring.sink is not None:
        sink = scoring.sink.to(scores)[:, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=-1)
    blind = scores.isneginf().all(dim=-1, keepdim=True)
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)[..., :keys]


def statistics_of(weights: Weights, offset: int = 0) -> Statistics:
    """The statistics of a matrix of weights; query i stands at the position of key offset + i.

    A row that sums to less than one has no sink here: its entropy is over the keys alone.
    """
    *lead, queries, keys = weights.shape
    ahead = Area(range(queries), range(keys), offset, weights.device).ahead()
    largest, key = weights.max(dim=-1)
    zeros = weights.new_zeros(*lead, queries)
    return Statistics(
        entropy=-torch.special.xlogy(weights, weights.clamp_min(0)).sum(-1),
        largest=largest,
        largest_key=key.masked_fill(largest <= 0, -1).to(torch.int32),
        distance=(weights * ahead.abs()).sum(-1),
        on_first=weights[..., 0].clone(),
        on_self=(weights * (ahead == 0)).sum(-1),
        on_previous=(weights * (ahead == -1)).sum(-1),
        on_next=(weights * (ahead == 1)).sum(-1),
        on_future=(weights * (ahead > 0)).sum(-1),
        on_padding=zeros,
        on_sink=zeros.clone(),
    )


def top_of(weights: Weights, count: int) -> Top:
    """The `count` largest weights of each row and their keys; 0 and -1 where a row has fewer."""
    largest, keys = weights.topk(min(count, weights.shape[-1]), dim=-1)
    largest, keys = (F.pad(side, (0, count - side.shape[-1])) for side in (largest, keys))
    return Top(largest, keys.masked_fill(largest <= 0, -1).to(torch.int32))


def atlas_of(weights: Weights, rows: int, columns: int) -> Atlas:
    """The mean and the largest weight of cells of rows x columns; edge cells may be partial."""
    queries, keys = weights.shape[-2:]
    missing = (0, -keys % columns, 0, -queries % rows)
    down, across = -(-queries // rows), -(-keys // columns)
    pairs = cell_counts(queries, rows)[:, None] * cell_counts(keys, columns)

    def cells(fill: float) -> Tensor:
        """The weights with an axis each for cells and for rows or columns within a cell."""
        padded = F.pad(weights, missing, value=fill)
        return padded.view(*weights.shape[:-2], down, rows, across, columns)

    total, largest = cells(0.0).sum((-3, -1)), cells(-torch.inf).amax((-3, -1))
    return Atlas(total / pairs.to(total), largest, rows, columns)
