"""Keys with slots behind the tokens: columns of their own, and never earlier tokens."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, LENGTH, RATE = 2, 11, 3


class Compressing(nn.Module):
    """Attends to tokens, and to the mean of every three tokens that came before."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(31, 8)

    def forward(self, ids, cache=None, padding=0):
        x = self.embedding(ids)
        if cache is not None:
            cache.append(x)
        keys = x if cache is None else torch.cat(cache, 1)
        count, before = keys.shape[1] // RATE, keys.shape[1] - x.shape[1]
        slots = keys[:, : count * RATE].view(len(x), count, RATE, 8).mean(2)
        place = torch.arange(before, keys.shape[1])[:, None]
        tokens = torch.arange(keys.shape[1]) <= place
        tokens[:, :padding] = False
        mask = torch.cat([tokens, (torch.arange(count) + 1) * RATE <= place], 1)
        keys = torch.cat([keys, slots], 1)
        return F.scaled_dot_product_attention(x[:, None], keys[:, None], keys[:, None], mask)


@pytest.mark.parametrize("padding", [0, 2])
def test_columns_of_tokens_and_slots_are_a_stream_of_their_own(padding):
    model, ids = Compressing(), torch.randint(31, (BATCH, LENGTH))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids, padding=padding)
    (only,) = seen[0]
    assert only.shape == (1, LENGTH, LENGTH + LENGTH // RATE)
    assert only.kind == "cross"
    assert only.rows.stream != only.columns.stream
    assert len(only.rows) == LENGTH


def test_decoding_steps_with_slots_are_a_gap():
    model, ids, cache = Compressing(), torch.randint(31, (BATCH, LENGTH)), []
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids[:, :7], cache)
        for step in range(7, LENGTH):
            model(ids[:, step : step + 1], cache)
    assert [each.shape for each in seen[0]] == [(1, 7, 9)]
    (gap,) = seen[0].gaps
    assert "slots" in gap.reason


class Cached(nn.Module):
    """Attends to earlier tokens, one of which is hidden, and to its own."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(31, 8)

    def forward(self, ids):
        x = self.embedding(ids)[:, None]
        mask = torch.ones(5, LENGTH, dtype=torch.bool).tril(LENGTH - 5)
        mask[:, 1] = False  # so that it is no plain causal mask
        return F.scaled_dot_product_attention(x[:, :, -5:], x, x, mask)


def test_a_prompt_after_earlier_tokens_has_no_slots():
    model = Cached()
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randint(31, (BATCH, LENGTH)))
    assert seen[0].maps[0].kind == "decoder"
