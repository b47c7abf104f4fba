import math

import pytest
import torch
from torch.nn import functional as F

from regard.kernels.observe import ObserveOptions, Scoring, observe
from regard.kernels.observe.call import Call
from regard.kernels.observe.choice import Implementation
from regard.masks import causal, explicit, tensor_bias

from .laws import EVERYTHING, assert_tells_the_truth


def a_call(queries: int = 53, keys: int = 61, **terms: object) -> Call:
    torch.manual_seed(2)
    query = torch.randn(2, 6, queries, 5)
    key, value = torch.randn(2, 3, keys, 5), torch.randn(2, 3, keys, 7)
    return Call(query, key, value, Scoring(**terms))


def test_the_context_is_that_of_torch() -> None:
    query, key, value = (torch.randn(2, 3, 53, 17) for _ in range(3))
    wanted = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    got = observe(query, key, value, mask=causal())
    torch.testing.assert_close(got.context, wanted, rtol=1e-5, atol=1e-5)


def test_rows_that_see_nothing_are_zeros(implementation: Implementation) -> None:
    seen = torch.ones(53, 61, dtype=torch.bool)
    seen[[0, 7, 52]] = False
    got = implementation.observe(a_call(mask=explicit(seen)), EVERYTHING)
    for row in (0, 7, 52):
        assert not got.context[:, :, row].any()
        assert (got.lse[:, :, row] == -math.inf).all()
        assert not got.statistics.entropy[:, :, row].any()
        assert (got.statistics.largest_key[:, :, row] == -1).all()
        assert (got.top.keys[:, :, row] == -1).all()
    assert not got.atlas.mean.isnan().any()


def test_a_sink_takes_all_from_rows_that_see_nothing(implementation: Implementation) -> None:
    nothing = explicit(torch.zeros(53, 61, dtype=torch.bool))
    got = implementation.observe(a_call(mask=nothing, sink=torch.arange(6.0)), EVERYTHING)
    torch.testing.assert_close(got.statistics.on_sink, torch.ones(2, 6, 53))
    torch.testing.assert_close(got.lse[0, :, 0], torch.arange(6.0))


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_scores_are_borne(implementation: Implementation, size: float) -> None:
    added = torch.zeros(53, 61)
    added[::3, ::2] = size
    added[1::3, ::7] = -math.inf
    call = a_call(bias=tensor_bias(added))
    assert_tells_the_truth(call, implementation.observe(call, EVERYTHING))


def test_keys_that_come_after_a_hidden_block_may_have_very_low_scores(
    implementation: Implementation,
) -> None:
    """The atlas once gave NaN: a row without keys so far must count as no weight, not as 2^0."""
    hidden_first = torch.arange(307)[None] >= 128 + torch.zeros(53, 1)
    call = a_call(53, 307, mask=explicit(hidden_first), bias=tensor_bias(torch.full((1, 1), -1e3)))
    assert_tells_the_truth(call, implementation.observe(call, EVERYTHING))


def test_a_row_hidden_by_the_lowest_number_is_uniform(implementation: Implementation) -> None:
    lowest = torch.full((53, 61), torch.finfo(torch.float32).min)
    got = implementation.observe(a_call(bias=tensor_bias(lowest)), EVERYTHING)
    torch.testing.assert_close(got.statistics.largest, torch.full((2, 6, 53), 1 / 61))


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 149), (97, 1), (48, 128), (49, 129)])
def test_sizes_at_the_edges_of_blocks(
    implementation: Implementation, queries: int, keys: int
) -> None:
    call = a_call(queries, keys)
    assert_tells_the_truth(call, implementation.observe(call, EVERYTHING))


@pytest.mark.parametrize("top", [1, 8, 9, 70])
def test_any_number_of_largest_weights_may_be_kept(
    implementation: Implementation, top: int
) -> None:
    call = a_call(53, 1301)
    assert_tells_the_truth(call, implementation.observe(call, ObserveOptions(top=top, atlas=7)))


def test_what_is_not_asked_for_is_not_there(implementation: Implementation) -> None:
    got = implementation.observe(a_call(), ObserveOptions(context=False, statistics=False, atlas=0))
    assert got.context is got.statistics is got.top is got.atlas is None
    assert got.lse.shape == (2, 6, 53)


def test_no_queries_give_an_empty_observation() -> None:
    got = observe(torch.zeros(1, 1, 0, 5), torch.zeros(1, 1, 3, 5), torch.zeros(1, 1, 3, 5))
    assert got.context.shape == (1, 1, 0, 5)


def test_no_keys_give_zeros() -> None:
    got = observe(torch.zeros(1, 1, 3, 5), torch.zeros(1, 1, 0, 5), torch.zeros(1, 1, 0, 5))
    assert not got.context.any()
    assert (got.lse == -math.inf).all()
