"""Attention written by hand from parts that are drawn at random: layout, product, mask, softmax.

Each part has the forms in which people write it, so that `compose(seed)` gives one of about 100,000
networks. Every network keeps the weights that it multiplied with its values in `expected`.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, SOURCE, TARGET, BATCH, VOCABULARY = 12, 3, 7, 5, 2, 31

OPTIONS = {
    "projection": ("three", "fused", "unbound", "convolution"),
    "layout": ("heads second", "heads third", "folded", "heads first", "torch", "one head"),
    "scale": ("query", "scores", "both", "none"),
    "product": ("matmul", "einsum", "bilinear", "sum", "cosine"),
    "mask": ("none", "causal", "added", "where", "bias"),
    "softmax": ("function", "exponentials", "logarithms", "other axis", "float32", "flat"),
    "change": ("none", "dropout", "mask", "normalise", "mix heads"),
    "context": ("matmul", "einsum", "sum", "transposed"),
}


class Attention(nn.Module):
    """Attention of one composition; `parts` has one form for each key of OPTIONS."""

    def __init__(self, parts):
        super().__init__()
        self.parts, self.expected = parts, None
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.bilinear = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)
        self.fused, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, memory=None):
        heads = 1 if self.parts["layout"] == "one head" else HEADS
        split, join = LAYOUTS[self.parts["layout"]]
        sides = self._project(x, x if memory is None else memory)
        query, key, value = (split(side.unflatten(-1, (heads, -1))) for side in sides)
        weights = self._weigh(query, key)
        shown = weights.detach()
        if self.parts["layout"] in ("folded", "torch"):
            shown = shown.unflatten(0, (-1, heads))
        elif self.parts["layout"] == "heads first":
            shown = shown.transpose(0, 1)
        self.expected = shown
        context = CONTEXTS[self.parts["context"]](weights, value)
        return self.output(join(context, heads).flatten(-2))

    def _project(self, x, memory):
        form = "three" if memory is not x else self.parts["projection"]
        if form == "three":
            return self.query(x), self.key(memory), self.value(memory)
        if form == "fused":
            return self.fused(x).split(WIDTH, -1)
        if form == "unbound":
            return self.fused(x).view(*x.shape[:2], 3, WIDTH).unbind(2)
        return F.conv1d(x.mT, self.fused.weight[..., None]).mT.chunk(3, -1)

    def _weigh(self, query, key):
        scale = query.shape[-1] ** -0.5
        if self.parts["scale"] in ("query", "both"):
            query = query * scale
        form = self.parts["product"]
        if form == "bilinear":
            size = query.shape[-1]
            matrix = self.bilinear[:size, :size]
            scores = torch.einsum("...qd,de,...ke->...qk", query, matrix, key)
        else:
            scores = PRODUCTS[form](query, key)
        if self.parts["scale"] in ("scores", "both"):
            scores = scores * scale
        scores = MASKS[self.parts["mask"]](scores)
        weights = SOFTMAXES[self.parts["softmax"]](scores)
        if self.parts["change"] != "mix heads":
            return CHANGES[self.parts["change"]](weights)
        if self.parts["layout"] not in ("heads second", "heads third"):
            return weights
        return torch.einsum("hg,bgqk->bhqk", self.bilinear[:HEADS, :HEADS], weights)


class Network(nn.Module):
    """Two layers of self-attention and, if the seed says so, one of cross-attention."""

    def __init__(self, parts, crosses):
        super().__init__()
        self.words, self.others = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Attention(chosen) for chosen in parts)
        self.crosses = crosses

    def forward(self, source, target):
        x = self.words(source)
        for layer in self.layers[:2]:
            x = x + layer(x).relu()
        return self.layers[2](self.others(target), x) if self.crosses else x


def compose(seed):
    """The network of a seed, and its inputs."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    crosses = chance.random() < 0.4
    parts = [{key: chance.choice(forms) for key, forms in OPTIONS.items()} for _ in range(3)]
    if parts[2]["mask"] in ("causal", "added"):  # which makes no sense between two streams
        parts[2]["mask"] = "none"
    network = Network(parts[: 2 + crosses], crosses).eval()
    ids = (torch.randint(VOCABULARY, (BATCH, length)) for length in (SOURCE, TARGET))
    return network, tuple(ids)


# how (batch, token, head, dim) is laid out for the products, and how the context comes back
LAYOUTS = {
    "heads second": (lambda x: x.transpose(1, 2), lambda c, heads: c.transpose(1, 2)),
    "one head": (lambda x: x.transpose(1, 2), lambda c, heads: c.transpose(1, 2)),
    "heads third": (
        lambda x: x.permute(0, 2, 1, 3).contiguous(),
        lambda c, heads: c.permute(0, 2, 1, 3),
    ),
    "heads first": (lambda x: x.permute(2, 0, 1, 3), lambda c, heads: c.permute(1, 2, 0, 3)),
    "folded": (
        lambda x: x.transpose(1, 2).flatten(0, 1),
        lambda c, heads: c.unflatten(0, (-1, heads)).transpose(1, 2),
    ),
    "torch": (  # as in torch's own multi-head attention: token, batch and head, dim
        lambda x: x.transpose(0, 1).flatten(1, 2).transpose(0, 1),
        lambda c, heads: c.transpose(0, 1).unflatten(1, (-1, heads)).transpose(0, 1),
    ),
}
PRODUCTS = {
    "matmul": lambda q, k: q @ k.transpose(-1, -2),
    "einsum": lambda q, k: torch.einsum("...qd,...kd->...qk", q, k),
    "sum": lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1),
    "cosine": lambda q, k: F.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1),
}
CONTEXTS = {
    "matmul": torch.matmul,
    "einsum": lambda w, v: torch.einsum("...qk,...kd->...qd", w, v),
    "sum": lambda w, v: (w.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2),
    "transposed": lambda w, v: (v.mT @ w.mT).mT,
}


def _later(scores):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


def _some(scores):
    """A mask of pairs in which each query sees the first key."""
    seen = torch.rand(scores.shape[-2:], generator=torch.Generator().manual_seed(3)) > 0.3
    return seen | (torch.arange(scores.shape[-1]) == 0)


MASKS = {
    "none": lambda s: s,
    "causal": lambda s: s.masked_fill(_later(s), -torch.inf),
    "added": lambda s: s + torch.zeros(s.shape[-2:]).masked_fill(_later(s), -1e9),
    "where": lambda s: torch.where(_some(s), s, torch.tensor(torch.finfo(s.dtype).min)),
    "bias": lambda s: s + torch.arange(s.shape[-1]) * 0.1,
}
SOFTMAXES = {
    "function": lambda s: F.softmax(s, -1),
    "exponentials": lambda s: (e := (s - s.amax(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
    "logarithms": lambda s: F.log_softmax(s, -1).exp(),
    "other axis": lambda s: s.mT.softmax(-2).mT,
    "float32": lambda s: F.softmax(s, dim=-1, dtype=torch.float32).type_as(s),
    "flat": lambda s: s.reshape(-1, s.shape[-1]).softmax(1).view(s.shape),
}
CHANGES = {
    "none": lambda w: w,
    "dropout": lambda w: F.dropout(w, 0.1, training=False),
    "mask": lambda w: w * (torch.arange(w.shape[-1]) != 1),
    "normalise": lambda w: w / (w.sum(-1, keepdim=True) + 1e-9),
}
