"""What correct means: every mechanism as a plain loop over rows in double precision."""

import math

import torch
from torch import Tensor

from regard.attention import (
    AdaptiveEntmax,
    AdditiveScore,
    CoAttention,
    Copying,
    CosineScore,
    Coverage,
    DotScore,
    Entmax,
    GeneralScore,
    Hard,
    Mechanism,
    PredictiveLocal,
    ScaledDotScore,
    Softmax,
    Sparsemax,
    TopK,
    TrilinearScore,
)
from regard.masks.mask import (
    AllOf,
    AnyOf,
    Everything,
    Explicit,
    Lengths,
    Mask,
    Not,
    Padding,
    Segments,
    Window,
)


def sees(mask: Mask, batch: int, head: int, i: int, j: int, offset: int = 0) -> bool:
    """Whether query i sees key j, from the definition of each mask."""
    match mask:
        case Everything():
            return True
        case Window(left, right):
            ahead = j - (i + offset)
            return (
                -(math.inf if left is None else left)
                <= ahead
                <= (math.inf if right is None else right)
            )
        case Lengths(sizes):
            return j < int(sizes[batch])
        case Padding(real):
            return bool(real[batch, j])
        case Segments(query, key):
            return int(query[batch, i]) == int(key[batch, j])
        case Explicit(seen):
            index = (
                n if size > 1 else 0
                for n, size in zip((batch, head, i, j), seen.shape, strict=True)
            )
            return bool(seen[tuple(index)])
        case AllOf(parts):
            return all(sees(part, batch, head, i, j, offset) for part in parts)
        case AnyOf(parts):
            return any(sees(part, batch, head, i, j, offset) for part in parts)
        case Not(part):
            return not sees(part, batch, head, i, j, offset)
    raise AssertionError(mask)


def score(kind: object, q: Tensor, k: Tensor) -> float:
    """One score from one query and one key."""
    match kind:
        case DotScore():
            return float(q @ k)
        case ScaledDotScore():
            return float(q @ k) / math.sqrt(len(q))
        case CosineScore():
            return float(q @ k) / float(q.norm() * k.norm()) / kind.temperature
        case GeneralScore():
            return float(q @ kind.W.double() @ k)
        case AdditiveScore():
            return float(kind.v.double() @ torch.tanh(kind.W.double() @ q + kind.U.double() @ k))
        case TrilinearScore():
            a, b, c = kind.query_weight, kind.key_weight, kind.product_weight
            return float(a.double() @ q + b.double() @ k + c.double() @ (q * k))
    raise AssertionError(kind)


def normalize(kind: object, scores: Tensor, head: int) -> Tensor:
    """The weights of one row, over the keys that it sees."""
    match kind:
        case Softmax():
            return (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()
        case TopK():
            keep = scores.argsort(descending=True)[: kind.k]
            weights = torch.zeros_like(scores)
            weights[keep] = normalize(Softmax(), scores[keep], head)
            return weights
        case Hard():
            weights = torch.zeros_like(scores)
            weights[scores.argmax()] = 1.0
            return weights
        case Sparsemax():
            return bisected(scores, 2.0)
        case Entmax():
            return bisected(scores, kind.alpha)
        case AdaptiveEntmax():
            return bisected(scores, float(kind.alpha[head]))
    raise AssertionError(kind)


def bisected(scores: Tensor, alpha: float) -> Tensor:
    """[(alpha - 1) s - tau]_+^(1 / (alpha - 1)), by halving (Peters et al. 2019)."""
    scaled = (alpha - 1) * scores
    low, high = scaled.max() - 1, scaled.max()
    for _ in range(200):
        tau = (low + high) / 2
        total = (scaled - tau).clamp_min(0).pow(1 / (alpha - 1)).sum()
        low, high = (tau, high) if total >= 1 else (low, tau)
    return (scaled - low).clamp_min(0).pow(1 / (alpha - 1))


def covered_scores(mechanism: Coverage, q: Tensor, keys: Tensor, covered: Tensor) -> Tensor:
    """The scores of one query with the coverage of each key (See et al. 2017, eq. 11)."""
    kind, scores = mechanism.score, []
    for k, c in zip(keys, covered, strict=True):
        inner = kind.W.double() @ q + kind.U.double() @ k + mechanism.w.double() * c
        scores.append(float(kind.v.double() @ torch.tanh(inner)))
    return torch.tensor(scores, dtype=torch.float64)


def row(
    mechanism: Mechanism,
    q: Tensor,
    keys: Tensor,
    seen: list[bool],
    added: Tensor,
    head: int,
    covered: Tensor,
) -> Tensor:
    """The weights of one query over all keys; `covered` is the sum of those before it."""
    weights = torch.zeros(len(keys), dtype=torch.float64)
    near, place = torch.tensor(seen), torch.arange(len(keys), dtype=torch.float64)
    if isinstance(mechanism, PredictiveLocal):
        gate = mechanism.v.double() @ torch.tanh(mechanism.W.double() @ q)
        centre = sum(seen) / (1 + math.exp(-float(gate)))
        near = near & ((place - centre).abs() <= mechanism.radius)
    if not near.any():
        return weights
    if isinstance(mechanism, Coverage):
        scores = covered_scores(mechanism, q, keys, covered)
    else:
        scores = torch.tensor([score(mechanism.score, q, k) for k in keys], dtype=torch.float64)
    scores = scores + added
    weights[near] = normalize(mechanism.normalizer, scores[near], head)
    if isinstance(mechanism, Copying):
        gate = (weights @ keys) @ mechanism.w_h.double() + q @ mechanism.w_s.double()
        weights /= 1 + torch.exp(gate + mechanism.b.double())
    if isinstance(mechanism, PredictiveLocal):
        weights *= torch.exp(-((place - centre) ** 2) / (2 * (mechanism.radius / 2) ** 2))
    return weights


@torch.no_grad()
def weights(
    mechanism: Mechanism, query: Tensor, key: Tensor, mask: Mask | None = None, offset: int = 0
) -> Tensor:
    """The weights of every row; four axes, the key's heads repeated where they are fewer."""
    query, key = query.detach().double(), key.detach().double()
    batch, heads, queries, _ = query.shape
    keys, groups = key.shape[2], heads // key.shape[1]
    mask = mechanism.mask if mask is None else mechanism.mask & mask
    bias = mechanism.bias() if isinstance(mechanism.bias, torch.nn.Module) else mechanism.bias
    added = torch.zeros(1, 1, queries, keys)
    if bias is not None:
        added = bias.dense(queries, keys, offset=offset).detach()
    added = added.double().expand(batch, heads, queries, keys)
    result = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = [sees(mask, b, h, i, j, offset) for j in range(keys)]
                covered = result[b, h, :i].sum(dim=0)
                q, k = query[b, h, i], key[b, h // groups]
                result[b, h, i] = row(mechanism, q, k, seen, added[b, h, i], h, covered)
    return result


def context(
    mechanism: Mechanism,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | None = None,
    offset: int = 0,
) -> Tensor:
    """The values mixed by the weights, row by row."""
    seen = weights(mechanism, query, key, mask, offset)
    value = value.detach().double()
    groups = query.shape[1] // value.shape[1]
    result = torch.zeros(*seen.shape[:3], value.shape[-1], dtype=torch.float64)
    for b, h, i in torch.cartesian_prod(*map(torch.arange, seen.shape[:3])).tolist():
        for j in range(seen.shape[3]):
            result[b, h, i] += seen[b, h, i, j] * value[b, h // groups, j]
    return result


@torch.no_grad()
def coattention(
    module: CoAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None = None
) -> Tensor:
    """Each query's values, and each key's queries read back, pair by pair; three axes."""
    query, key, value = (side.detach().double() for side in (query, key, value))
    (batch, queries, width), keys = query.shape, key.shape[1]
    both = torch.zeros(batch, queries, value.shape[-1] + width, dtype=torch.float64)
    for b in range(batch):
        seen = torch.tensor(
            [[mask is None or sees(mask, b, 0, i, j) for j in range(keys)] for i in range(queries)]
        )
        scores = torch.tensor(
            [[score(module.reading.score, q, k) for k in key[b]] for q in query[b]],
            dtype=torch.float64,
        )
        summary = torch.zeros(keys, width, dtype=torch.float64)
        for j in (j for j in range(keys) if seen[:, j].any()):
            rows = seen[:, j]
            summary[j] = normalize(Softmax(), scores[rows, j], 0) @ query[b][rows]
        read = torch.cat([value[b], summary], dim=-1)
        for i in (i for i in range(queries) if seen[i].any()):
            both[b, i] = normalize(Softmax(), scores[i][seen[i]], 0) @ read[seen[i]]
    return both
