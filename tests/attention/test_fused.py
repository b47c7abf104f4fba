"""The fused, sliced and banded plans give what the dense weights give."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import regard
from regard.attention import DotScore, Mechanism, banded, fused
from regard.masks import alibi, causal, explicit, lengths, padding, tensor_bias, window

DIM, VALUE_DIM = 3, 5


def inputs(queries, keys, heads=3, key_heads=3, batch=2):
    sizes = ((heads, queries, DIM), (key_heads, keys, DIM), (key_heads, keys, VALUE_DIM))
    return [torch.randn(batch, *size, dtype=torch.float64) for size in sizes]


def by_weights(query, key, value, mask, offset=0, mechanism=None):
    mechanism = mechanism or Mechanism()
    weights = regard.weights(query, key, mechanism, mask, offset=offset)
    return weights @ value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)


@given(
    left=st.integers(-2, 40),
    width=st.integers(0, 50),
    queries=st.integers(1, 150),
    keys=st.integers(1, 170),
    offset=st.integers(-20, 60),
    groups=st.sampled_from([1, 3]),
)
@settings(max_examples=60, deadline=None)
def test_a_window_in_blocks_equals_a_window_in_a_dense_mask(
    left, width, queries, keys, offset, groups
):
    query, key, value = inputs(queries, keys, key_heads=3 // groups)
    mask = window(left, width - left)
    context = regard.attend(query, key, value, mask=mask, offset=offset)
    torch.testing.assert_close(context, by_weights(query, key, value, mask, offset))


@pytest.mark.parametrize("cells", [1, 50, 1 << 22])
@pytest.mark.parametrize(
    "mask",
    [
        causal() & lengths([19, 13]),
        ~window(2, 2),
        explicit(torch.rand(23, 19, generator=torch.Generator().manual_seed(1)) > 0.6),
        window(3, 2) & padding(torch.arange(19).expand(2, 19) % 3 > 0),
        window(1, 1) | window(None, -9),
    ],
    ids=str,
)
def test_slices_of_any_size_give_the_same(mask, cells, monkeypatch):
    monkeypatch.setattr(fused, "_CELLS", cells)
    query, key, value = inputs(23, 19)
    context = regard.attend(query, key, value, mask=mask, offset=3)
    torch.testing.assert_close(context, by_weights(query, key, value, mask, 3))


@pytest.mark.parametrize("cells", [1, 1 << 22])
def test_a_bias_is_sliced_with_its_rows(cells, monkeypatch):
    monkeypatch.setattr(fused, "_CELLS", cells)
    query, key, value = inputs(11, 13)
    mechanism = Mechanism(bias=alibi(3) + tensor_bias(torch.randn(2, 3, 11, 13)))
    context = regard.attend(query, key, value, mechanism, causal(), offset=2)
    torch.testing.assert_close(context, by_weights(query, key, value, causal(), 2, mechanism))


def test_gradients_pass_through_the_blocks_of_a_window():
    sides = [side.requires_grad_() for side in inputs(100, 100)]
    mask = window(7, 2)
    expected = torch.autograd.grad(by_weights(*sides, mask).square().sum(), sides)
    came = torch.autograd.grad(regard.attend(*sides, mask=mask).square().sum(), sides)
    torch.testing.assert_close(came, expected)


def test_windows_over_non_contiguous_heads_are_right():
    sides = [torch.randn(2, 90, 3, DIM, dtype=torch.float64).transpose(1, 2) for _ in range(3)]
    context = regard.attend(*sides, mask=window(9, 0))
    torch.testing.assert_close(context, by_weights(*sides, window(9, 0)))


def test_a_window_never_makes_a_mask_of_all_pairs(monkeypatch):
    sizes = []
    cut = type(window(1, 1)).cut
    monkeypatch.setattr(
        type(window(1, 1)), "cut", lambda mask, area: sizes.append(cut(mask, area)) or sizes[-1]
    )
    regard.attend(*inputs(2000, 2000), mask=window(9, 0))
    assert max(each.numel() for each in sizes) <= banded._ROWS * (banded._ROWS + 10) * 2


def test_the_same_keys_for_each_group_equals_repeated_heads():
    query, key, value = inputs(5, 7, heads=6, key_heads=2)
    repeated = (side.repeat_interleave(3, dim=1) for side in (key, value))
    torch.testing.assert_close(
        regard.attend(query, key, value), regard.attend(query, *repeated), rtol=0, atol=1e-12
    )


def test_local_attention_with_a_window_over_everything_is_global():
    query, key, value = inputs(13, 13)
    local = regard.attend(query, key, value, Mechanism(mask=window(13, 13)))
    assert torch.equal(local, regard.attend(query, key, value))


@pytest.mark.parametrize("mechanism", [Mechanism(), Mechanism(DotScore())], ids=["scaled", "dot"])
def test_extreme_scores_do_not_overflow(mechanism):
    query, key, value = (side.float() for side in inputs(5, 7))
    query = query * 1e4
    context = regard.attend(query, key, value, mechanism)
    expected = reference.context(mechanism, query, key, value)
    torch.testing.assert_close(context.double(), expected, rtol=1e-4, atol=1e-4)


def test_weights_that_are_dropped_are_scaled_up_while_training():
    query, key, value = torch.zeros(1, 4), torch.zeros(2000, 4), torch.ones(2000, 1)
    mechanism = Mechanism(dropout=0.5).train()
    assert regard.attend(query, key, value, mechanism).item() == pytest.approx(1.0, abs=0.1)
    assert regard.attend(query, key, value, mechanism).item() != 1.0
    assert regard.attend(query, key, value, mechanism.eval()).item() == pytest.approx(1.0)
