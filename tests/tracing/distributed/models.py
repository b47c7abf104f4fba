"""Small attention models for the tests with two processes."""

import torch
import torch.nn.functional as F
from torch import nn

DIM, HEADS, KEY_HEADS, VOCABULARY = 24, 6, 2, 31


class Attention(nn.Module):
    """Grouped-query attention, by torch's function or by hand."""

    def __init__(self, *, by_hand=False, causal=True):
        super().__init__()
        self.by_hand, self.causal, self.width = by_hand, causal, DIM // HEADS
        self.q, self.o = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.k, self.v = (nn.Linear(DIM, KEY_HEADS * self.width) for _ in range(2))

    def forward(self, x, source=None):
        source = x if source is None else source
        q = self.split_heads(self.q(x))
        k, v = self.split_heads(self.k(source)), self.split_heads(self.v(source))
        context = self.attend_by_hand(q, k, v) if self.by_hand else self.attend(q, k, v)
        return self.o(context.transpose(1, 2).reshape(*x.shape[:2], -1))

    def split_heads(self, x):
        return x.view(*x.shape[:2], -1, self.width).transpose(1, 2)

    def attend(self, q, k, v):
        settings = {"is_causal": self.causal, "enable_gqa": True}
        return F.scaled_dot_product_attention(q, k, v, **settings)

    def attend_by_hand(self, q, k, v):
        k, v = (side.repeat_interleave(HEADS // KEY_HEADS, dim=1) for side in (k, v))
        return (q @ k.transpose(-1, -2) / self.width**0.5).softmax(-1) @ v


class Model(nn.Module):
    """Two layers on embedded tokens; the second may attend to another text."""

    def __init__(self, **settings):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        self.first, self.second = (Attention(**settings) for _ in range(2))

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.first(x)
        return x + self.second(x)


class Reader(nn.Module):
    """Embeds the tokens of one text."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)

    def forward(self, ids):
        return self.embedding(ids)


class Translator(nn.Module):
    """Attends from one text to another one of the same length."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Reader(), Reader()
        self.cross = Attention(by_hand=True)

    def forward(self, source, target):
        return self.cross(self.decoder(target), self.encoder(source))


class SplitQueries(nn.Module):
    """Attention by hand on DTensors whose queries lie in different processes."""

    def forward(self, q, k, v):
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v


class Block(nn.Module):
    """Attention and a feed-forward network in one module, of which only the latter is split."""

    def __init__(self):
        super().__init__()
        self.attention, self.up, self.down = Attention(), *make_layers()

    def forward(self, x):
        module = self.attention
        q, k, v = (module.split_heads(each(x)) for each in (module.q, module.k, module.v))
        context = module.attend(q, k, v).transpose(1, 2).reshape(x.shape)
        return self.down(F.relu(self.up(module.o(context))))


def make_layers():
    return nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)


def make_ids(batch=2, length=7):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(3))
