"""A small decoder with a cache that its caller may reorder, and ways to run it step by step."""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 31, 12, 3, 2, 23


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.sides = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, cache, mask):
        query, key, value = (
            side(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for side in self.sides
        )
        key, value = cache.extend(key, value)
        causal = mask is None and key.shape[2] == query.shape[2]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return x + mixed.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    def __init__(self, layers=LAYERS):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, ids, caches=None, mask=None):
        caches = caches or [Growing() for _ in self.layers]
        start = caches[0].length
        x = self.words(ids) + self.places(torch.arange(start, start + ids.shape[1]))
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, mask)
        return x


class Side(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, ids):
        return self.words(ids)[:, None]


class Pair(nn.Module):
    """A decoder of one layer that looks at itself, then at a source."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Side(), Side()

    def forward(self, source, target):
        return self.step(self.encoder(source), self.decoder(target))

    def step(self, source, target, before=None):
        """The decoder's new rows; those of before are keys beside them."""
        own = target if before is None else torch.cat([before, target], dim=2)
        query = F.scaled_dot_product_attention(target, own, own, is_causal=before is None)
        return F.scaled_dot_product_attention(query, source, source)


class Growing:
    """Keys and values that are joined to those of before."""

    def __init__(self):
        self.length, self.held = 0, None

    def extend(self, *new):
        old = self.held
        self.held = [
            each if old is None else torch.cat([old[n], each], dim=2) for n, each in enumerate(new)
        ]
        self.length += new[0].shape[2]
        return self.held

    def reorder(self, rows):
        self.held = [each.index_select(0, torch.tensor(rows)) for each in self.held]


class Static(Growing):
    """Keys and values written into buffers of their final size."""

    def extend(self, *new):
        if self.held is None:
            self.held = [each.new_zeros(*each.shape[:2], LONGEST, each.shape[3]) for each in new]
        places = torch.arange(self.length, self.length + new[0].shape[2])
        self.length += len(places)
        return [
            buffer.index_copy_(2, places, each) for buffer, each in zip(self.held, new, strict=True)
        ]

    def mask(self, queries):
        """What so many queries, to be read next, may see of the buffer."""
        own = self.length + torch.arange(queries)
        return (torch.arange(LONGEST) <= own[:, None])[None, None]


def step_by_step(model, ids, moves=None, caches=None):
    """Read a prompt of three tokens, then token after token; before it, rows may move."""
    caches = caches or [Growing() for _ in model.layers]
    for start, stop in [(0, 3), *((n, n + 1) for n in range(3, ids.shape[1]))]:
        rows = (moves or {}).get(start)
        if rows is not None:
            ids = ids[rows]
            for cache in caches:
                cache.reorder(rows)
        mask = caches[0].mask(stop - start) if isinstance(caches[0], Static) else None
        model(ids[:, start:stop], caches, mask)
    return ids
