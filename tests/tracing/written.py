"""Modules that attend as people write it by hand; each keeps its own weights to compare with."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, VOCABULARY, STEPS = 2, 7, 12, 3, 19, 5
HEAD = WIDTH // HEADS


class Layer(nn.Module):
    """Self-attention of a given form: of queries, keys and values to weights and a context."""

    def __init__(self, form):
        super().__init__()
        self.form, self.q, self.k, self.v = form, *(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        self.weights, context = self.form(self.q(x), self.k(x), self.v(x))
        return context


class Encoder(nn.Module):
    """Tokens embedded, and one layer that attends."""

    def __init__(self, layer):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(VOCABULARY, WIDTH), layer

    def forward(self, ids):
        return self.layer(self.embedding(ids))


def heads(x):
    return x.view(*x.shape[:2], HEADS, HEAD)


def scores(q, k):
    return q @ k.transpose(-1, -2) / WIDTH**0.5


def causal(q):
    return torch.ones(q.shape[1], q.shape[1]).tril().bool()


def module_softmax(q, k, v):
    weights = nn.Softmax(dim=-1)(scores(q, k))
    return weights[:, None], weights @ v


def softmax_of_another_type(q, k, v):
    weights = torch.softmax(scores(q, k), dim=-1, dtype=torch.float64)
    return weights[:, None], weights.to(v.dtype) @ v


def logarithms(q, k, v):
    weights = F.log_softmax(scores(q, k), dim=-1).exp()
    return weights[:, None], weights @ v


def permuted_einsum(q, k, v):
    met = torch.einsum("bqhd,bkhd->bqkh", heads(q), heads(k))
    weights = met.softmax(dim=2)
    context = torch.einsum("bqkh,bkhd->bqhd", weights, heads(v))
    return weights.permute(0, 3, 1, 2), context.flatten(2)


def einsum_with_dots(q, k, v):
    q, k, v = (heads(each).transpose(1, 2) for each in (q, k, v))
    weights = torch.einsum("...id,...jd->...ij", q, k).softmax(-1)
    return weights, torch.einsum("...ij,...jd->...id", weights, v)


def keys_first(q, k, v):
    weights = torch.softmax(k @ q.mT, dim=1)  # batch key query
    return weights.mT[:, None], weights.mT @ v


def values_first(q, k, v):
    weights = scores(q, k).softmax(-1)
    return weights[:, None], (v.mT @ weights.mT).mT


def folded_heads(q, k, v):
    q, k, v = (heads(each).transpose(1, 2).reshape(-1, LENGTH, HEAD) for each in (q, k, v))
    weights = F.softmax(torch.bmm(q, k.mT), dim=-1)
    return weights.view(BATCH, HEADS, LENGTH, LENGTH), torch.bmm(weights, v)


def exponents(q, k, v):
    met = scores(q, k)
    e = torch.exp(met - met.max(dim=-1, keepdim=True).values)
    weights = e / e.sum(-1, keepdim=True)
    return weights[:, None], weights @ v


def masked_exponents(q, k, v):
    met = scores(q, k)
    e = (met - met.amax(-1, keepdim=True)).exp() * causal(q)
    weights = e / (torch.sum(e, dim=-1, keepdim=True) + 1e-12)
    return weights[:, None], weights @ v


def exponents_in_place(q, k, v):
    weights = scores(q, k).exp_()
    weights.div_(weights.sum(dim=-1, keepdim=True))
    return weights[:, None], torch.matmul(weights, v)


def exponents_times_reciprocal(q, k, v):
    e = scores(q, k).exp()
    weights = e * e.sum(dim=2).reciprocal().unsqueeze(-1)
    return weights[:, None], weights @ v


def minus_logsumexp(q, k, v):
    met = scores(q, k)
    weights = (met - met.logsumexp(dim=-1, keepdim=True)).exp()
    return weights[:, None], weights @ v


def renormalised(q, k, v):
    weights = scores(q, k).softmax(-1) * causal(q)
    weights = weights / weights.sum(-1, keepdim=True)
    return weights[:, None], weights @ v


def masked_before(q, k, v):
    weights = scores(q, k).masked_fill(~causal(q), float("-inf")).softmax(-1)
    return weights[:, None], F.dropout(weights, 0.0) @ v


def summed(q, k, v):
    weights = scores(q, k).softmax(-1)
    return weights[:, None], (weights.unsqueeze(-1) * v.unsqueeze(1)).sum(dim=2)


def dots(q, k, v):
    weights = (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1).softmax(-1)
    return weights[:, None], weights @ v


def additive(q, k, v):
    weights = torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)).sum(-1).softmax(-1)
    return weights[:, None], weights @ v


def sink(q, k, v):
    met = torch.cat([scores(q, k), torch.zeros(BATCH, LENGTH, 1)], dim=-1)
    weights = met.softmax(-1)[..., :-1]
    return weights[:, None], weights @ v


def cosines(q, k, v):
    weights = F.linear(F.normalize(q[0]), F.normalize(k[0])).softmax(-1)
    return weights[None, None], weights @ v[0]


FORMS = (
    *(module_softmax, softmax_of_another_type, logarithms, permuted_einsum, einsum_with_dots),
    *(keys_first, values_first, folded_heads, exponents, masked_exponents, exponents_in_place),
    *(exponents_times_reciprocal, minus_logsumexp, renormalised, masked_before, summed, dots),
    *(additive, sink, cosines),
)


class Fused(nn.Module):
    """One linear layer for queries, keys and values, as vision models have it."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        self.weights = (q * HEAD**-0.5 @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((self.weights @ v).transpose(1, 2).reshape(batch, length, width))


class LearnedQuery(nn.Module):
    """A query that is a parameter pools what it looks at."""

    def __init__(self):
        super().__init__()
        self.latent = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        latent = self.latent.expand(batch, -1, -1)
        q = self.q(latent).reshape(batch, 1, HEADS, HEAD).transpose(1, 2)
        kv = self.kv(x).reshape(batch, length, 2, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        k, v = kv.unbind(0)
        self.weights = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        return (self.weights @ v).transpose(1, 2).reshape(batch, 1, width)


class Pooling(nn.Module):
    """Tokens scored one by one and summed (Yang et al. 2016)."""

    def __init__(self):
        super().__init__()
        self.hidden, self.score = nn.Linear(WIDTH, HEAD), nn.Linear(HEAD, 1, bias=False)

    def forward(self, x):
        weights = torch.softmax(self.score(torch.tanh(self.hidden(x))), dim=1)
        self.weights = weights.mT[:, None]
        return (weights * x).sum(dim=1)


class TalkingHeads(nn.Module):
    """Scores and weights mixed between heads (Shazeer et al. 2020)."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(HEADS, HEADS), nn.Linear(HEADS, HEADS)

    def forward(self, x):
        q = k = v = heads(x).transpose(1, 2)
        met = self.before((q @ k.mT).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        weights = self.after(met.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        self.weights = weights
        return weights @ v


class Slots(nn.Module):
    """Slots compete for tokens, and sum those that they won (Locatello et al. 2020)."""

    def __init__(self):
        super().__init__()
        self.start, self.q = nn.Parameter(torch.randn(5, WIDTH)), nn.Linear(WIDTH, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x):
        slots = self.start + 0 * x.mean(1, keepdim=True)
        weights = torch.einsum("bkd,bqd->bkq", x, self.q(slots)).softmax(dim=-1)
        weights = weights / weights.sum(dim=1, keepdim=True)
        self.weights = weights.mT[:, None]
        return torch.einsum("bkd,bkq->bqd", x, weights)


LAYERS = (Fused, LearnedQuery, Pooling, TalkingHeads, Slots)
