"""Attention that torch's functions call inside themselves."""

import pytest
import torch
from torch import nn

import regard
from regard.tracing.inner_calls import NOT_FOLLOWED
from regard.tracing.watcher import Watcher

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, TOKENS, PICKED, WIDTH = 2, 7, 5, 6


class PickedKeys(nn.Module):
    """Learned queries attend to tokens whose order and axis are not known any more."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(31, WIDTH)
        self.queries = nn.Parameter(torch.randn(3, WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, 1)

    def forward(self, ids):
        x = self.embedding(ids)
        places = x.sum(-1).topk(PICKED).indices
        keys = x.gather(1, places[..., None].expand(-1, -1, WIDTH)).cumprod(1).transpose(0, 1)
        queries = self.queries[:, None].repeat(1, len(ids), 1)
        context, self.weights = self.attention(queries, keys, keys)
        return context


def test_multi_head_attention_over_picked_tokens_has_its_map():
    model, ids = PickedKeys(), torch.randint(31, (BATCH, TOKENS))
    with torch.no_grad(), regard.watch(model) as seen:
        output = model(ids)
    assert torch.equal(output, model(ids))
    assert not seen[0].gaps
    for example, trace in enumerate(seen):
        torch.testing.assert_close(trace.maps[0].weights(0), model.weights[example])


def test_multi_head_attention_is_never_missed_without_a_word(monkeypatch):
    monkeypatch.setattr(Watcher, "_record_manual", lambda *_: None)  # as if not recognised
    model, ids = PickedKeys(), torch.randint(31, (BATCH, TOKENS))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    gaps = {(gap.site, gap.reason) for trace in seen for gap in trace.gaps}
    assert gaps == {("attention", NOT_FOLLOWED)}


def test_multi_head_attention_that_is_followed_is_no_gap():
    model, x = nn.MultiheadAttention(WIDTH, 2, batch_first=True), torch.randn(BATCH, TOKENS, WIDTH)
    with torch.no_grad(), regard.watch(model) as seen:
        model(x, x, x)
        model(x, x, x, need_weights=False)
    assert not seen[0].gaps
    assert len(seen[0].maps) == 2
