"""Decoding steps that are observed one by one are what one call over all of them is."""

import pytest
import torch
from torch import Tensor

from regard.kernels.observe import Observation, ObserveOptions, observe
from regard.kernels.observe.choice import Implementation
from regard.kernels.observe.one_query import QueryRows
from regard.masks import causal

Sides = tuple[Tensor, Tensor, Tensor]


def a_decoding(dim: int, value_dim: int, keys: int = 97, dtype: torch.dtype = torch.float32):
    torch.manual_seed(dim)
    query = torch.randn(1, 6, keys, dim).to(dtype)
    key, value = torch.randn(1, 3, keys, dim).to(dtype), torch.randn(1, 3, keys, value_dim)
    return query, key, value.to(dtype)


def observed(sides: Sides, first: int) -> tuple[Observation, Tensor]:
    """The rows from the query `first` on, step by step."""
    query, key, value = sides
    rows = QueryRows.after(key[:, :, :first], 6, value.shape[3])
    contexts = []
    for count in range(first + 1, key.shape[2] + 1):
        step = (query[:, :, count - 1 : count], key[:, :, :count], value[:, :, :count])
        assert rows.fits(*step, None)
        contexts.append(rows.observe(*step))
    assert torch.equal(rows.queries, query[:, :, first:])
    assert torch.equal(rows.new_keys, key[:, :, first:])
    return rows.observation(), torch.cat(contexts, dim=2)


@pytest.mark.parametrize(("dim", "value_dim"), [(64, 64), (5, 7), (16, 128), (33, 32), (1, 1)])
def test_steps_have_the_numbers_of_the_whole_call(native: Implementation, dim, value_dim):
    sides, first = a_decoding(dim, value_dim), 13
    seen, context = observed(sides, first)
    query, key, value = sides
    keep = ObserveOptions(atlas=0)
    whole = observe(query[:, :, first:], key, value, mask=causal(), offset=first, keep=keep)
    torch.testing.assert_close(context, whole.context)
    torch.testing.assert_close(seen.lse, whole.lse)
    for name, numbers in vars(whole.statistics).items():
        torch.testing.assert_close(getattr(seen.statistics, name), numbers, msg=name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_steps_in_half_precision_are_summed_in_single(native: Implementation, dtype):
    query, key, value = sides = a_decoding(19, 23, dtype=dtype)
    seen, context = observed(sides, 5)
    whole = observe(query[:, :, 5:], key, value, mask=causal(), offset=5)
    torch.testing.assert_close(context, whole.context)
    torch.testing.assert_close(seen.statistics.entropy, whole.statistics.entropy)


def test_a_long_step_on_several_threads_is_the_same(native: Implementation):
    query, key, value = a_decoding(64, 64, keys=2053)
    once = QueryRows.after(key[:, :, :-1], 6, 64).observe(query[:, :, -1:], key, value)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        again = QueryRows.after(key[:, :, :-1], 6, 64).observe(query[:, :, -1:], key, value)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(once, again)


def test_a_step_with_other_keys_is_refused(native: Implementation):
    query, key, value = a_decoding(5, 7)
    rows = QueryRows.after(key[:, :, :-1] + 1, 6, 7)
    assert rows.observe(query[:, :, -1:], key, value) is None
    assert rows.count == 0


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_row_without_a_softmax_is_refused(native: Implementation, number):
    query, key, value = a_decoding(5, 7)
    key[0, 1, 3, 2] = number
    rows = QueryRows.after(key[:, :, :-1], 6, 7)
    assert rows.observe(query[:, :, -1:], key, value) is None


def test_a_call_of_other_sizes_is_not_the_next_step(native: Implementation):
    query, key, value = a_decoding(5, 7)
    rows, last = QueryRows.after(key[:, :, :-1], 6, 7), query[:, :, -1:]
    assert rows.fits(last, key, value, None)
    assert not rows.fits(query[:, :, -2:], key, value, None)
    assert not rows.fits(last, key[:, :, 1:], value[:, :, 1:], None)
    assert not rows.fits(last, key, value, 0.3)
    assert not rows.fits(last, key.double(), value, None)
    assert not rows.fits(last.mT.contiguous().mT.expand(-1, -1, 1, -1)[..., ::1], key.mT, value, 1)
