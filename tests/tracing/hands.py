"""Attention as people write it by hand, in every layout, and models that attend otherwise."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, HEADS, WIDTH = 2, 7, 3, 15
HEAD = WIDTH // HEADS


def weigh(q, k, mask=None):
    scores = q @ k.transpose(-1, -2) / HEAD**0.5
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)


def by_matmul(q, k, v, mask):
    return (weigh(q, k, mask) @ v).transpose(1, 2)


def by_bmm(q, k, v, mask):
    q, k, v = (side.flatten(0, 1) for side in (q, k, v))
    return torch.bmm(weigh(q, k, mask), v).view(-1, HEADS, LENGTH, HEAD).transpose(1, 2)


def by_folded_weights(q, k, v, mask):
    weights = weigh(q, k, mask).view(-1, LENGTH, LENGTH)
    return (weights @ v.flatten(0, 1)).view(-1, HEADS, LENGTH, HEAD).transpose(1, 2)


def by_einsum(q, k, v, mask):
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / HEAD**0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return torch.einsum("bhij,bhjd->bihd", F.softmax(scores, dim=-1), v)


def by_values_first(q, k, v, mask):
    turned = v.transpose(-1, -2) @ weigh(q, k, mask).transpose(-1, -2)
    return turned.permute(0, 3, 1, 2)


def by_fused(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def by_dots(q, k, v, mask):
    return torch.einsum("...ij,...jd->...id", weigh(q, k, mask), v).transpose(1, 2)


def by_sum(q, k, v, mask):
    """No product tells how these weights meet their values."""
    return (weigh(q, k, mask)[..., None] * v[:, :, None]).sum(-2).transpose(1, 2)


FORMS = [by_matmul, by_bmm, by_folded_weights, by_einsum, by_dots, by_values_first, by_fused]


class Layer(nn.Module):
    """One layer of self-attention with a projection of its own for each side."""

    def __init__(self, form, dropout=0.0):
        super().__init__()
        self.form, self.dropout = form, nn.Dropout(dropout)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def sides(self, x):
        return [f(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v)]

    def forward(self, x, mask=None):
        return self.out(self.form(*self.sides(x), mask).flatten(2))


class Model(nn.Module):
    """Two layers."""

    def __init__(self, form):
        super().__init__()
        self.h = nn.ModuleList([Layer(form), Layer(form)])

    def forward(self, x, mask=None):
        for layer in self.h:
            x = x + layer(x, mask)
        return x


def an_input():
    return torch.randn(BATCH, LENGTH, WIDTH)


def with_weights(layer, x, weights):
    """What a layer gives if its weights are these."""
    mixed = weights @ layer.sides(x)[2]
    return layer.out(mixed.transpose(1, 2).flatten(2))


def own_weights(layer, x, mask=None):
    q, k, _ = layer.sides(x)
    return weigh(q, k, mask)
