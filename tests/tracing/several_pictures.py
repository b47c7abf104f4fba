"""Readers of texts with pictures, by hand: each text may have another number of pictures."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, SIDE, PATCHES, PICTURE = 6, 4, 4, 30  # a picture of 4 x 4 has 4 patches of 2 x 2


class Attends(nn.Module):
    """Self-attention of one head, without weights of its own."""

    def forward(self, x, mask=None):
        return x + F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], mask)[:, 0]


class Looker(nn.Module):
    """Turns pictures (picture, channel, side, side) into features (picture, patch, width)."""

    def __init__(self):
        super().__init__()
        self.patches, self.attention = nn.Conv2d(3, WIDTH, 2, 2), Attends()

    def forward(self, pixels):
        return self.attention(self.patches(pixels).flatten(2).mT)


class OneByOne(Looker):
    """Attends to one picture after another."""

    def forward(self, pixels):
        features = self.patches(pixels).flatten(2).mT
        return torch.cat([self.attention(each[None]) for each in features])


class Packed(Looker):
    """Attends to all pictures in one row, each of which sees its own patches only."""

    def forward(self, pixels):
        features = self.patches(pixels).flatten(2).mT
        number = torch.arange(len(pixels)).repeat_interleave(PATCHES)
        mask = number[:, None] == number
        return self.attention(features.reshape(1, -1, WIDTH), mask).reshape(features.shape)


class Reader(nn.Module):
    """Puts the features of pictures into the places of a text that wait for them."""

    def __init__(self, looker=Looker, write="masked_scatter"):
        super().__init__()
        self.embedding, self.looker = nn.Embedding(PICTURE + 1, WIDTH), looker()
        self.attention, self.write = Attends(), write

    def forward(self, input_ids, pixel_values):
        x, places = self.embedding(input_ids), input_ids == PICTURE
        if pixel_values.dim() == 5:  # pictures of padding are dropped
            pixel_values = pixel_values.flatten(0, 1)
            pixel_values = pixel_values[pixel_values.flatten(1).any(1)]
        features = self.looker(pixel_values)
        if self.write == "masked_scatter":
            x = x.masked_scatter(places[..., None].expand_as(x), features)
        elif self.write == "index":
            x[places] = features.flatten(0, 1)
        return self.attention(x)


def text(pictures, length):
    """A text of one example with places for its pictures."""
    ids = torch.randint(PICTURE, (1, length))
    ids[0, 1 : 1 + pictures * PATCHES] = PICTURE
    return ids
