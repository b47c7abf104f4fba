"""Attention over rearranged tokens is mapped in place: the map times the values is the context."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.dataflow import placed_weights

BATCH, LENGTH, HEADS, DIM = 2, 11, 3, 5
WIDTH, WINDOW = HEADS * DIM, 4


class Projected(nn.Module):
    """Queries, keys and values with heads; `context` and `value` are kept for the test."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(13, WIDTH)
        self.query, self.key, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = (f(x).unflatten(-1, (HEADS, DIM)) for f in (self.query, self.key, self.values))
        self.value = v.detach()
        self.context = self.attend(q, k, v)[:, :LENGTH].detach()
        return self.context


def fill_up(x):
    return F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % WINDOW))


def blocks(x):
    return fill_up(x).unflatten(1, (-1, WINDOW))


def with_neighbours(x):
    padded = F.pad(blocks(x), (0, 0, 0, 0, 0, 0, 1, 1))
    count = padded.shape[1] - 2
    return torch.cat([padded[:, shift : shift + count] for shift in range(3)], dim=2)


class NeighbouringBlocks(Projected):
    """Each block sees itself and the blocks beside it (Guo et al. 2022)."""

    def attend(self, q, k, v):
        real = with_neighbours(torch.ones_like(k[..., :1]))[..., 0].movedim(-1, 2)[:, :, :, None]
        scores = torch.einsum("bnqhd,bnkhd->bnhqk", blocks(q), with_neighbours(k))
        weights = scores.masked_fill(real == 0, -1e9).softmax(-1)
        return torch.einsum("bnhqk,bnkhd->bnqhd", weights, with_neighbours(v)).flatten(1, 2)


class Band(Projected):
    """Each token sees a window around it, read by strides (Beltagy et al. 2020)."""

    def windows(self, x):
        x = F.pad(x.transpose(1, 2).flatten(0, 1), (0, 0, 2, 2))
        size = (len(x), LENGTH, 5, DIM)
        return x.as_strided(size, (x.stride(0), x.stride(1), x.stride(1), x.stride(2)))

    def attend(self, q, k, v):
        rows = q.transpose(1, 2).flatten(0, 1)[:, :, None]
        weights = (rows @ self.windows(k).mT).softmax(-1)
        return (weights @ self.windows(v)).view(BATCH, HEADS, LENGTH, DIM).transpose(1, 2)


class RolledKeys(Projected):
    """Keys and values are rolled alike, so that each column is still a key."""

    def attend(self, q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k.roll(3, 1), v.roll(3, 1)))
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2)


class Gathered(Projected):
    """Tokens in sorted buckets, put back in order afterwards (Kitaev et al. 2020)."""

    def attend(self, q, k, v):
        order = q.sum((2, 3)).argsort(1)
        index = order[:, :, None, None].expand_as(q)
        q, k, v = (x.gather(1, index).transpose(1, 2) for x in (q, k, v))
        context = ((q @ k.mT).softmax(-1) @ v).transpose(1, 2)
        return torch.empty_like(context).scatter_(1, index, context)


class DynamicConvolution(Projected):
    """Each token makes the weights of its neighbours by itself (Wu et al. 2019)."""

    def attend(self, q, k, v):
        columns = v.flatten(2).mT[..., None]
        near = F.unfold(columns, (5, 1), padding=(2, 0)).mT
        near = near.reshape(BATCH, LENGTH, HEADS, DIM, 5).flatten(0, 2)
        weights = q.reshape(-1, DIM, 1).softmax(1)
        return (near @ weights).view(BATCH, LENGTH, HEADS, DIM)


def watch(model):
    torch.manual_seed(0)
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randint(13, (BATCH, LENGTH)))
    return list(seen)


@pytest.mark.parametrize(
    "kind", [NeighbouringBlocks, Band, RolledKeys, Gathered, DynamicConvolution]
)
def test_the_map_times_the_values_is_the_context(kind):
    traces = watch(model := kind())
    assert len(traces) == BATCH
    for trace, value, context in zip(traces, model.value, model.context, strict=True):
        (attention_map,) = trace.maps
        assert (attention_map.kind, attention_map.shape) == ("encoder", (HEADS, LENGTH, LENGTH))
        again = attention_map.weights() @ value.transpose(0, 1)
        torch.testing.assert_close(again, context.transpose(0, 1))


class Strided(Projected):
    """Every second token asks, all are asked (Graham et al. 2021)."""

    def attend(self, q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q[:, ::2], k, v))
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2)


def test_rows_are_the_tokens_that_ask():
    traces = watch(model := Strided())
    for trace, value, context in zip(traces, model.value, model.context, strict=True):
        weights = trace.maps[0].weights()
        torch.testing.assert_close(weights[:, ::2] @ value.transpose(0, 1), context.transpose(0, 1))
        assert not weights[:, 1::2].any()


class ParallelBlocks(Projected):
    """Each block of queries has a softmax of its own over all keys, in a loop."""

    def attend(self, q, k, v):
        out = torch.zeros_like(q)
        for start in range(0, LENGTH, WINDOW):
            rows = torch.arange(start, min(start + WINDOW, LENGTH))
            q_, k_, v_ = (x.transpose(1, 2) for x in (q[:, rows], k, v))
            out[:, rows] = ((q_ @ k_.mT).softmax(-1) @ v_).transpose(1, 2)
        return out


def test_parts_of_one_call_are_joined_into_one_map():
    traces = watch(model := ParallelBlocks())
    for trace, value, context in zip(traces, model.value, model.context, strict=True):
        (attention_map,) = trace.maps
        again = attention_map.weights() @ value.transpose(0, 1)
        torch.testing.assert_close(again, context.transpose(0, 1))


def test_a_map_of_too_many_tokens_is_a_gap(monkeypatch):
    monkeypatch.setattr(placed_weights, "MAX_NUMBERS", 100)
    (trace,) = watch(NeighbouringBlocks())
    assert [gap.reason for gap in trace.gaps] == [placed_weights.TOO_LARGE]
    assert "watch it on a shorter input" in placed_weights.TOO_LARGE


class RolledWeights(Projected):
    """Weights that were moved off the keys that they were made from."""

    def attend(self, q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return ((q @ k.mT).roll(1, dims=-1).softmax(-1) @ v).transpose(1, 2)


def test_keys_of_the_weights_and_of_the_values_must_agree():
    (trace,) = watch(RolledWeights())
    assert not trace.maps
    assert "columns are not keys" in trace.gaps[0].reason


class SlidingCache(Projected):
    """Keys and values in a buffer whose first one makes room for the newest."""

    def attend(self, q, k, v):
        keys, values = torch.zeros_like(k[:, :WINDOW]), torch.zeros_like(v[:, :WINDOW])
        keys.copy_(k[:, :WINDOW])
        values.copy_(v[:, :WINDOW])
        keys.copy_(torch.cat([keys[:, 1:], k[:, WINDOW : WINDOW + 1]], dim=1))
        values.copy_(torch.cat([values[:, 1:], v[:, WINDOW : WINDOW + 1]], dim=1))
        q, k, v = (x.transpose(1, 2) for x in (q[:, WINDOW : WINDOW + 1], keys, values))
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2)


def test_the_keys_of_a_sliding_cache_stay_on_their_axis():
    (attention_map,) = watch(SlidingCache())[0].maps
    assert attention_map.shape == (HEADS, 1, WINDOW)
