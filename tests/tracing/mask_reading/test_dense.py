import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.masks import causal, everything, explicit, padding, window
from regard.tracing.mask_reading.dense import (
    count_written_keys,
    describe_dense_mask,
    read_mask,
)
from tracing.decoders import Decoder, Growing, Static, step_by_step

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, QUERIES, KEYS = 3, 5, 11


def staircase(queries, keys, before=0):
    return torch.arange(keys) <= before + torch.arange(queries)[:, None]


@pytest.mark.parametrize("before", [0, 3, KEYS - QUERIES])
def test_a_causal_mask_reaches_as_far_as_its_last_query(before):
    assert count_written_keys(staircase(QUERIES, KEYS, before)) == before + QUERIES


def test_a_mask_that_shows_the_prompt_to_all_of_it_reaches_to_its_end():
    seen = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
    seen[:, :QUERIES] = True
    assert count_written_keys(seen) == QUERIES


def test_a_prefix_that_sees_itself_does_not_move_what_follows():
    seen = staircase(QUERIES, KEYS)
    seen[:2, :2] = True
    assert count_written_keys(seen) == QUERIES


def test_padding_at_the_end_does_not_pull_the_rows_back():
    seen = staircase(QUERIES, KEYS, 2)
    seen[:, 5:] = False
    assert count_written_keys(seen) == 2 + QUERIES


def test_the_last_key_that_one_example_sees_counts_for_all():
    seen = staircase(1, KEYS, 4).repeat(BATCH, 1, 1, 1)
    seen[1, ..., 5:7] = True
    assert count_written_keys(seen) == 7


def test_a_mask_without_rows_that_see_reaches_everywhere():
    assert count_written_keys(torch.zeros(QUERIES, KEYS, dtype=torch.bool)) == KEYS


@pytest.mark.parametrize(
    "mask",
    [
        everything(),
        causal(),
        window(2, 0),
        padding(torch.arange(KEYS) > torch.tensor([[0], [1], [3]])),
        causal() & padding(torch.arange(KEYS) > torch.tensor([[0], [1], [3]])),
        window(7, 0) & padding(torch.arange(KEYS) > torch.tensor([[0], [1], [3]])),
        explicit(torch.rand(BATCH, 1, QUERIES, KEYS) > 0.5),
    ],
    ids=str,
)
def test_a_dense_mask_is_described_briefly_and_exactly(mask):
    sizes = {"queries": QUERIES, "keys": KEYS, "offset": KEYS - QUERIES}
    dense = mask.dense(**sizes).expand(BATCH, 1, QUERIES, KEYS)
    found = describe_dense_mask(dense)
    assert torch.equal(found.dense(**sizes).expand_as(dense), dense)
    assert len(str(found)) <= len(str(mask))


def test_what_a_window_hides_from_all_rows_is_not_padding():
    dense = window(2, 0).dense(2, KEYS, offset=KEYS - 2)
    assert describe_dense_mask(dense) == window(2, 0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", [padding, explicit])
def test_a_description_does_not_change_with_the_mask_that_it_was_read_from(mode, kind):
    with mode():
        dense = torch.rand(BATCH, 1, 1 if kind is padding else QUERIES, KEYS) > 0.5
        found, _ = read_mask(dense, BATCH)
        before = found.dense(QUERIES, KEYS).clone()
        dense.fill_(True)
        assert torch.equal(found.dense(QUERIES, KEYS), before)
        assert read_mask(dense, BATCH)[0] == everything()


@torch.no_grad()
def test_a_mask_that_stays_is_read_once_even_without_a_version():
    with torch.inference_mode():
        dense = torch.rand(BATCH, 1, QUERIES, KEYS) > 0.5
        assert read_mask(dense, BATCH)[0] is read_mask(dense, BATCH)[0]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_static_cache_looks_like_one_that_grows(mode):
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, 7))
    with mode():
        with regard.watch(model) as grow_diag:
            step_by_step(model, ids)
        with regard.watch(model) as written:
            step_by_step(model, ids, caches=[Static() for _ in model.layers])
    for one, other in zip(grow_diag, written, strict=True):
        for each, twin in zip(one, other, strict=True):
            assert each.shape == (3, 7, 7)
            torch.testing.assert_close(each.weights(), twin.weights())
            torch.testing.assert_close(each.statistics.on_self, twin.statistics.on_self)


@torch.no_grad()
def test_a_watched_model_with_a_static_cache_gives_what_it_gives_alone():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, 7))
    caches = [Static() for _ in model.layers]
    alone = model(ids, caches, caches[0].mask(7))
    caches = [Static() for _ in model.layers]
    with regard.watch(model):
        torch.testing.assert_close(model(ids, caches, caches[0].mask(7)), alone)


@torch.no_grad()
def test_padding_of_the_keys_of_another_stream_is_not_cut():
    class InputReader(nn.Module):
        def __init__(self):
            super().__init__()
            self.asks, self.texts = nn.Embedding(7, 8), nn.Embedding(7, 8)

        def forward(self, ask, text, mask):
            query, key = self.asks(ask)[:, None], self.texts(text)[:, None]
            return F.scaled_dot_product_attention(query, key, key, attn_mask=mask)

    mask = (torch.arange(KEYS) < 7)[None, None, None]
    with regard.watch(model := InputReader()) as seen:
        model(torch.ones(1, 2).long(), torch.ones(1, KEYS).long(), mask)
    assert seen[0].maps[0].shape == (1, 2, 7)  # dropped as padding, at the end


@torch.no_grad()
def test_rows_over_a_padded_cache_know_their_own_place():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, 7))
    caches = [Growing() for _ in model.layers]
    real = torch.ones(BATCH, 1, 1, 7, dtype=torch.bool)
    real[0, ..., :2] = False
    with regard.watch(model) as seen:
        model(ids[:, :6], caches, staircase(6, 6) & real[..., :6])
        model(ids[:, 6:], caches, real)
    each = seen[0].maps[0]
    own = each.weights().diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(each.statistics.on_self, own)
