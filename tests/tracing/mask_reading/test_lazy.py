"""A mask that stays a description: lazy as long as nobody reads it, and then the true one."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.masks import causal, padding
from regard.tracing.mask_reading.index_rules import MaskFacts, MaskSizes
from regard.tracing.mask_reading.lazy import (
    LazyMask,
    LazyTensor,
    TensorRecipe,
    describe_lazy_mask,
    first_query_position,
)
from regard.tracing.recording import observe_call

BATCH, QUERIES, KEYS, DIM = 2, 5, 7, 11
CPU = torch.device("cpu")
REAL = torch.ones(BATCH, KEYS, dtype=torch.bool)
REAL[0, :3] = False
MASK = causal() & padding(REAL)
OFFSET = KEYS - QUERIES


def dense():
    return MASK.dense(QUERIES, KEYS, offset=OFFSET)


def lazy(make=dense, kind=torch.bool):
    facts = MaskFacts(MaskSizes(BATCH, 1, QUERIES, KEYS), causal(), OFFSET, REAL)
    return LazyMask.of(facts, TensorRecipe(make), kind, CPU)


def never():
    raise AssertionError("the mask was made")


def test_its_outside_is_known_without_making_it():
    mask = lazy(never)
    assert (mask.shape, mask.dim(), mask.ndim) == ((BATCH, 1, QUERIES, KEYS), 4, 4)
    assert (mask.dtype, mask.device, mask.size(2), len(mask)) == (torch.bool, CPU, QUERIES, BATCH)
    assert (mask.numel(), mask.is_floating_point()) == (BATCH * QUERIES * KEYS, False)
    assert repr(mask) == "<LazyMask (2, 1, 5, 7)>"


READERS = {
    "an operator": lambda mask: ~mask,
    "a method": lambda mask: mask.float().sum(),
    "a function": lambda mask: torch.where(mask, 1.0, 2.0),
    "a list": lambda mask: torch.cat([mask, mask], dim=3),
    "a keyword": lambda mask: torch.logical_not(input=mask),
    "an index": lambda mask: mask[1, 0],
    "a row": lambda mask: mask[:, :, -1:],
    "some columns": lambda mask: mask[..., 1:4],
    "every second": lambda mask: mask[..., ::2],
    "nothing": lambda mask: mask[..., 4:4],
    "a new axis": lambda mask: mask[:, None],
    "a copy": copy.deepcopy,
    "a list of numbers": lambda mask: torch.tensor(mask.tolist()),
}


@pytest.mark.parametrize("name", READERS)
def test_whatever_reads_it_gets_the_true_mask(name):
    assert torch.equal(READERS[name](lazy()), READERS[name](dense()))


def test_slices_of_rows_and_columns_stay_lazy():
    mask = lazy(never)
    for part in (mask[:, :, :, :3], mask[..., 1:3, 2:], mask[:], mask[:, :, -1:][..., :4]):
        assert isinstance(part, LazyMask)


@pytest.mark.parametrize("taken", [(..., slice(3)), (..., slice(2, 5), slice(1, 6))])
def test_the_description_of_a_slice_is_that_of_its_pairs(taken):
    part = lazy()[taken]
    queries, keys = part.shape[2:]
    said = describe_lazy_mask(part, BATCH).dense(
        queries, keys, offset=first_query_position(part, 0)
    )
    assert torch.equal(said, dense()[taken])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_mask_that_was_written_into_is_no_longer_what_was_told(mode):
    with mode():
        mask = lazy()
        part = mask[..., :6]
        assert describe_lazy_mask(mask, BATCH) is not None
        mask[:, :, 0, 0] = True
        assert describe_lazy_mask(mask, BATCH) is None
        assert describe_lazy_mask(part, BATCH) is None
        assert bool(mask[1, 0, 0, 0])
        assert bool(part[1, 0, 0, 0])


class Masked(nn.Module):
    def forward(self, query, key, mask):
        return F.scaled_dot_product_attention(query, key, key, attn_mask=mask)


@pytest.mark.parametrize("runs", ["as a long call", "as a short call", "beside"])
def test_a_watched_call_is_described_by_it(runs, monkeypatch):
    if runs == "as a long call":  # a short one runs as torch runs it, which takes the dense mask
        monkeypatch.setattr(observe_call, "MOST_SCORES", 0)
    module, query, key = (
        Masked(),
        torch.randn(BATCH, 3, QUERIES, DIM),
        torch.randn(BATCH, 3, KEYS, DIM),
    )
    expected = module(query, key, dense())
    with regard.watch(module, beside=runs == "beside") as seen:
        watched = module(query, key, lazy(never) if runs == "as a long call" else lazy())
    rows = dense().any(dim=-1)[..., None]
    torch.testing.assert_close(watched * rows, expected * rows)
    assert seen[1].maps[0].shape == (3, QUERIES, KEYS)
    assert seen[0].maps[0].shape[2] == KEYS - 3


@pytest.mark.parametrize("kind", [torch.bool, torch.float16, torch.float32])
def test_some_rows_of_it_are_those_of_the_dense_mask(kind):
    rows = lazy(never, kind).rows([0, 3])
    assert rows.dtype == kind
    seen = rows if kind == torch.bool else rows == 0
    assert torch.equal(seen, dense()[:, :, [0, 3]])
    assert kind == torch.bool or rows.min() == torch.finfo(kind).min


def test_the_keys_that_a_static_cache_has_not_written_are_left_out():
    facts = MaskFacts(MaskSizes(BATCH, 1, QUERIES, 13), causal(), 3)
    mask = LazyMask.of(facts, TensorRecipe(never), torch.bool, CPU)
    assert mask.without_unwritten_keys().shape == (BATCH, 1, QUERIES, 3 + QUERIES)
    assert lazy(never).without_unwritten_keys().shape == (BATCH, 1, QUERIES, KEYS)


def test_a_tensor_is_made_once():
    made = []
    tensor = LazyTensor(
        TensorRecipe(lambda: made.append(0) or torch.ones(3)), (3,), torch.float32, CPU
    )
    assert (tensor + tensor).tolist() == [2.0] * 3
    assert tensor.sum() == 3
    assert len(made) == 1
