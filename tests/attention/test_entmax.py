import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from regard.attention import AdaptiveEntmax, Entmax, Softmax, Sparsemax


def scores(keys=11, spread=3.0, dtype=torch.float64):
    return torch.randn(2, 3, 5, keys, dtype=dtype) * spread


def test_alpha_one_is_the_softmax():
    rows = scores()
    torch.testing.assert_close(Entmax(1.0)(rows), Softmax()(rows))
    torch.testing.assert_close(Entmax(1.0 + 1e-9)(rows), Softmax()(rows), atol=1e-5, rtol=0)


def test_alpha_two_is_sparsemax():
    rows = scores()
    torch.testing.assert_close(Entmax(2.0)(rows), Sparsemax()(rows))


@given(
    alpha=st.floats(1.01, 2.0),
    keys=st.integers(1, 300),
    spread=st.sampled_from([0.01, 1.0, 30.0, 1e4]),
)
@settings(max_examples=40, deadline=None)
def test_entmax_equals_bisection_for_any_alpha(alpha, keys, spread):
    rows = scores(keys, spread)
    weights = Entmax(alpha)(rows)
    expected = reference.bisected(rows[1, 2, 3], alpha)
    torch.testing.assert_close(weights[1, 2, 3], expected, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.001, 1.2, 1.5, 1.9, 2.0])
def test_single_precision_rows_still_sum_to_one(alpha):
    weights = Entmax(alpha)(scores(1009, dtype=torch.float32))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5), atol=1e-5, rtol=0)


def test_the_larger_alpha_the_fewer_keys_get_weight():
    rows = scores(101, 1.0)
    counts = [(Entmax(alpha)(rows) > 0).sum().item() for alpha in (1.0, 1.3, 1.6, 2.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == rows.numel()
    assert counts[-1] < rows.numel() / 4


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.8])
def test_gradients_to_scores_match_finite_differences(alpha):
    assert torch.autograd.gradcheck(Entmax(alpha), scores(7, 1.0).requires_grad_(), fast_mode=True)


def test_each_head_learns_its_own_alpha():
    normalizer = AdaptiveEntmax(heads=3).double()
    with torch.no_grad():
        normalizer.a.copy_(torch.tensor([-2.0, 0.0, 2.0]))
    rows = scores()
    weights = normalizer(rows)
    for head, alpha in enumerate((1.0 + torch.tensor([-2.0, 0.0, 2.0]).sigmoid()).tolist()):
        torch.testing.assert_close(
            weights[:, head], Entmax(alpha)(rows)[:, head], atol=1e-6, rtol=1e-6
        )


def test_ties_share_the_weight():
    rows = torch.tensor([1.0, 1.0, 0.0]).expand(1, 1, 1, 3)
    for normalizer in (Sparsemax(), Entmax(1.5), Entmax(2.0)):
        weights = normalizer(rows)[0, 0, 0]
        assert weights[0] == weights[1]
        torch.testing.assert_close(weights.sum(), torch.tensor(1.0))
