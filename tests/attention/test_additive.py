import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from regard.attention import additive
from regard.attention.additive import additive_scores


def plain(a, b, v):
    return (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v).sum(-1)


def sides(rows=(2, 3), queries=5, keys=7, hidden=11, spread=1.0, dtype=torch.float64):
    a = torch.randn(*rows, queries, hidden, dtype=dtype) * spread
    b = torch.randn(*rows, keys, hidden, dtype=dtype) * spread
    return a, b, torch.randn(hidden, dtype=dtype)


@given(
    st.integers(1, 23),
    st.integers(1, 29),
    st.integers(1, 13),
    st.sampled_from([0.01, 1.0, 8.0, 100.0]),
)
@settings(max_examples=40, deadline=None)
def test_scores_equal_a_tanh_for_each_pair(queries, keys, hidden, spread):
    inputs = sides((1, 2), queries, keys, hidden, spread)
    torch.testing.assert_close(additive_scores(*inputs), plain(*inputs))


@pytest.mark.parametrize("spread", [1.0, 8.0, 100.0])
@pytest.mark.parametrize("shift", [0.0, 30.0, -60.0, 300.0])
def test_large_and_shifted_exponents_do_not_overflow_in_single_precision(spread, shift):
    a, b, v = sides(spread=spread)
    a, b = a + shift, b - shift
    scores = additive_scores(a.float(), b.float(), v.float())
    torch.testing.assert_close(scores.double(), plain(a, b, v), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("spread", [1.0, 100.0])
@pytest.mark.parametrize("queries", [2, 5])
def test_gradients_match_finite_differences(queries, spread):
    inputs = [side.requires_grad_() for side in sides(queries=queries, spread=spread)]
    assert torch.autograd.gradcheck(additive_scores, inputs, fast_mode=True)


@pytest.mark.parametrize("block", [1, 100, 1000])
def test_blocks_of_any_size_give_the_same(block, monkeypatch):
    inputs = [side.requires_grad_() for side in sides()]
    expected = torch.autograd.grad(plain(*inputs).square().sum(), inputs)
    monkeypatch.setattr(additive, "_BLOCK", block)
    monkeypatch.setattr(additive, "_BLOCK_QUERIES", 4)
    came = torch.autograd.grad(additive_scores(*inputs).square().sum(), inputs)
    torch.testing.assert_close(came, expected)


@pytest.mark.usefixtures("unchecked")
def test_scores_of_tensors_without_memory_have_the_right_shape():
    inputs = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(7)
    with FakeTensorMode() as mode:
        scores = additive_scores(*(mode.from_tensor(side) for side in inputs))
        assert scores.shape == (2, 3, 5, 11)
    meta = additive_scores(*(side.to("meta") for side in inputs))
    assert meta.shape == (2, 3, 5, 11)
    graph = make_fx(additive_scores)(*inputs)
    others = [side * 2 for side in inputs]
    torch.testing.assert_close(graph(*others), additive_scores(*others))
