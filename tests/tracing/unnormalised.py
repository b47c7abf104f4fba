"""Attention whose weights are no softmax, as people write it by hand: weights and context."""

import torch
import torch.nn.functional as F

from tracing.written import causal, heads, scores


def sigmoids(q, k, v):
    weights = torch.sigmoid(scores(q, k) - 2.0)
    return weights[:, None], weights @ v


def rectified(q, k, v):
    weights = scores(q, k).relu() / q.shape[1]
    return weights[:, None], weights @ v


def squared(q, k, v):
    weights = F.relu(scores(q, k)).square() * causal(q)
    return weights[:, None], weights @ v


def divided_by_their_sum(q, k, v):
    weights = scores(q, k).relu()
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
    return weights[:, None], weights @ v


def inner_products(q, k, v):
    weights = scores(q, k)
    return weights[:, None], weights @ v


def decayed(q, k, v):
    """Retention in its parallel form (Sun et al. 2023)."""
    places = torch.arange(q.shape[1])
    decay = 0.9 ** (places[:, None] - places).clamp_min(0) * causal(q)
    q, k, v = (heads(each).transpose(1, 2) for each in (q, k, v))
    weights = q @ k.mT * decay
    return weights, weights @ v


def angles(q, k, v):
    """The chance that hashes of both are equal (Zeng et al. 2021)."""
    weights = (1 - torch.acos(F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT) / torch.pi) ** 4
    return weights[:, None], weights @ v


def gumbel(q, k, v):
    weights = F.gumbel_softmax(scores(q, k), dim=-1)
    return weights[:, None], weights @ v


def softmin(q, k, v):
    weights = F.softmin(scores(q, k), dim=-1)
    return weights[:, None], weights @ v


def by_tensordot(q, k, v):
    weights = scores(q[:1], k[:1]).softmax(-1)
    return weights[:, None], torch.tensordot(weights[0], v[0], dims=([1], [0]))


def by_tensordot_count(q, k, v):
    weights = torch.tensordot(q[0], k[0].T, dims=1).softmax(-1)
    return weights[None, None], torch.tensordot(weights, v[0], 1)


def divided_after_the_product(q, k, v):
    e = (scores(q, k) - scores(q, k).amax(-1, keepdim=True)).exp()
    total = e.sum(-1, keepdim=True)
    return (e / total)[:, None], (e @ v) / total


def einsum_divided_after_the_product(q, k, v):
    q, k, v = heads(q), heads(k), heads(v)
    e = torch.einsum("bqhd,bkhd->bhqk", q, k).exp()
    total = e.sum(-1)
    context = torch.einsum("bhqk,bkhd->bhqd", e, v)
    return e / total[..., None], context * total.unsqueeze(-1).reciprocal()


def sparsemax(q, k, v):
    """Weights with exact zeros (Martins and Astudillo 2016)."""
    met = scores(q, k)
    ordered = met.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, met.shape[-1] + 1)
    support = 1 + ranks * ordered > ordered.cumsum(-1)
    count = support.sum(-1, keepdim=True)
    threshold = (ordered.cumsum(-1).gather(-1, count - 1) - 1) / count
    weights = (met - threshold).clamp(min=0)
    return weights[:, None], weights @ v


def differences(q, k, v):
    """Two maps, one subtracted from the other (Ye et al. 2024)."""
    q, k, v = (heads(each).transpose(1, 2) for each in (q, k, v))
    first = (q @ k.mT).softmax(-1)
    second = (q @ k.mT * 0.3).softmax(-1)
    weights = first - 0.4 * second
    return weights, weights @ v


def summed_sigmoids(q, k, v):
    weights = scores(q, k).sigmoid()
    return weights[:, None], (weights.unsqueeze(-1) * v.unsqueeze(1)).sum(dim=2)


FORMS = (
    *(sigmoids, rectified, squared, divided_by_their_sum, inner_products, decayed, gumbel, softmin),
    *(angles, by_tensordot, by_tensordot_count, divided_after_the_product),
    *(einsum_divided_after_the_product, sparsemax, differences, summed_sigmoids),
)
