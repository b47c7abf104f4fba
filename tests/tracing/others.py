"""Modules that use a softmax and do not attend: to tokens, at least."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, VOCABULARY = 2, 7, 12, 19


class Router(nn.Module):
    """A mixture of experts, of which the likeliest two are used; there are as many as tokens."""

    def __init__(self, experts=LENGTH):
        super().__init__()
        self.gate = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(experts))

    def forward(self, x):
        flat = x.view(-1, WIDTH)
        weights, chosen = F.softmax(self.gate(flat), dim=-1).topk(2, dim=-1)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            result.index_add_(0, row, expert(flat[row]) * weights[row, place, None])
        return result.view_as(x)


class SoftMixture(Router):
    """All experts, mixed for each token."""

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=-2)
        return torch.einsum("bte,bted->btd", weights, outputs)


class SummedMixture(Router):
    def forward(self, x):
        weights = F.softmax(self.gate(x), dim=-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=2)
        return (weights.unsqueeze(-1) * outputs).sum(dim=2)


class FlatMixture(Router):
    """Experts of each token, the batch flattened away."""

    def forward(self, x):
        flat = x.reshape(-1, WIDTH)
        weights = self.gate(flat).softmax(dim=1)
        outputs = torch.stack([expert(flat) for expert in self.experts], dim=1)
        return torch.bmm(weights.unsqueeze(1), outputs).view_as(x)


class PooledMixture(Router):
    """Experts of one vector of each example."""

    def forward(self, x):
        pooled = x.mean(dim=1)
        weights = self.gate(pooled).softmax(dim=1)
        outputs = torch.stack([expert(x[:, 0]) for expert in self.experts], dim=1)
        return torch.bmm(weights.unsqueeze(1), outputs)[:, 0]


class OneTensorMixture(nn.Module):
    """Experts as one parameter, scored by embeddings of their own."""

    def __init__(self):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.experts = nn.Parameter(torch.randn(LENGTH, WIDTH, WIDTH))

    def forward(self, x):
        weights = (x @ self.keys.T).softmax(-1)
        outputs = torch.einsum("btd,edf->betf", x, self.experts)
        return torch.einsum("bte,betf->btf", weights, outputs)


class Expected(nn.Module):
    """The embedding that logits expect: the values are a parameter."""

    def __init__(self, tied=True):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, x):
        logits = x @ self.table.weight.t()
        return F.softmax(logits, dim=-1) @ self.table.weight


class Memory(nn.Module):
    """Slots of a memory that are parameters, normalised and looked up."""

    def __init__(self):
        super().__init__()
        self.keys, self.values = (nn.Parameter(torch.randn(LENGTH, WIDTH)) for _ in range(2))

    def forward(self, x):
        return F.linear(x, F.normalize(self.keys, dim=-1)).softmax(-1).matmul(self.values)


class LayerMix(nn.Module):
    """A scalar for each layer (Peters et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.scalars = nn.Parameter(torch.randn(3))

    def forward(self, x):
        layers = torch.stack([x, x.tanh(), x.relu()], dim=0)
        return torch.einsum("l,lbtd->btd", self.scalars.softmax(0), layers)


class Gate(nn.Module):
    """Channels weighed by a softmax, and a classifier behind it."""

    def __init__(self):
        super().__init__()
        self.gate, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        x = x * self.gate(x.mean(1, keepdim=True)).softmax(-1)
        return self.out(x.mean(1)).softmax(-1)


class Assignment(nn.Module):
    """Tokens shared out among clusters, which sum theirs (Arandjelovic et al. 2016)."""

    def __init__(self):
        super().__init__()
        self.clusters = nn.Linear(WIDTH, 5)

    def forward(self, x):
        return torch.einsum("btk,btd->bkd", self.clusters(x).softmax(-1), x)


class Span(nn.Module):
    """Where an answer starts: over tokens, but nothing is mixed."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.out(x).unbind(-1)[0].softmax(dim=-1)


OTHERS = (
    *(Router, SoftMixture, SummedMixture, FlatMixture, PooledMixture, OneTensorMixture),
    *(Expected, Memory, LayerMix, Gate, Assignment, Span),
)
