import math

import pytest
import torch
from torch.nn import functional as F

from regard.kernels.observe import Observation, ObserveOptions, Region, Scoring, observe
from regard.kernels.observe.call import Call
from regard.kernels.observe.choice import Implementation
from regard.masks import Mask, causal, explicit, lengths, tensor_bias, window

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


def undefined_rows(seen: Observation) -> list[torch.Tensor]:
    """Which rows are NaN, by each number of a row."""
    numbers = {**vars(seen.statistics), "lse": seen.lse}
    assert (numbers.pop("largest_key")[seen.lse.isnan()] == -1).all()
    parts = [seen.context.isnan().all(-1), seen.top.weights.isnan().all(-1)]
    return [*parts, (seen.top.keys == -1).all(-1), *(n.isnan() for n in numbers.values())]


@pytest.mark.parametrize("mask", [None, window(40, 3)], ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_without_a_softmax_is_nan_in_every_number(
    implementation: Implementation, bad: float, mask: Mask | None
) -> None:
    torch.manual_seed(3)
    query, key = torch.randn(1, 2, 211, 8), torch.randn(1, 2, 307, 8)
    query[0, 1, 97, 3] = bad
    key[0, :, :, 3] = 1.0
    seen = implementation.observe(Call(query, key, key, Scoring(mask=mask)), EVERYTHING)
    expected = torch.zeros(1, 2, 211, dtype=torch.bool)
    expected[0, 1, 97] = True
    for rows in undefined_rows(seen):
        assert torch.equal(rows, expected)
    cells = torch.zeros_like(seen.atlas.mean, dtype=torch.bool)
    cells[0, 1, 97 // seen.atlas.rows] = True
    assert torch.equal(seen.atlas.mean.isnan(), cells)
    assert torch.equal(seen.atlas.largest.isnan(), cells)


def test_a_hidden_key_may_hold_anything(implementation: Implementation) -> None:
    torch.manual_seed(4)
    query, key = torch.randn(1, 2, 11, 5), torch.randn(1, 2, 13, 5)
    bad = key.clone()
    bad[:, :, 11:] = math.nan
    for mask in (lengths([11]), causal(), explicit(torch.arange(13).expand(11, 13) < 11)):
        seen, other = (
            implementation.observe(Call(query, side, key, Scoring(mask=mask)), EVERYTHING)
            for side in (key, bad)
        )
        assert torch.equal(seen.lse, other.lse)
        assert torch.equal(seen.atlas.mean, other.atlas.mean)
        assert torch.equal(seen.atlas.largest, other.atlas.largest)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_sink_that_is_no_number_is_not_ignored(
    implementation: Implementation, bad: float
) -> None:
    side = torch.randn(1, 2, 7, 5)
    scoring = Scoring(sink=torch.tensor([0.0, bad]), mask=window(-9, 20))
    seen = implementation.observe(Call(side, side, side, scoring), EVERYTHING)
    for rows in undefined_rows(seen):
        assert torch.equal(rows[0, 1], torch.ones(7, dtype=torch.bool))
    assert not seen.lse[0, 0].isnan().any()


@pytest.mark.parametrize("cap", [3.0, 1e2, 1e4, 1e6, 1e12, 1e30, math.inf])
def test_a_large_softcap_loses_no_digits(implementation: Implementation, cap: float) -> None:
    torch.manual_seed(5)
    query, key = torch.randn(1, 2, 53, 8), torch.randn(1, 2, 61, 8) * 2
    call = Call(query, key, key, Scoring(softcap=cap))
    scores = query.double() @ key.double().mT / 8**0.5
    expected = (scores if cap == math.inf else cap * torch.tanh(scores / cap)).softmax(-1)
    seen = implementation.observe(call, EVERYTHING)
    assert (seen.statistics.largest - expected.amax(-1)).abs().max() < 1e-6
    pooled = implementation.pool_region(call, seen.lse, Region(range(53), range(61), head=1))
    assert (pooled.mean - expected[0, 1]).abs().max() < 1e-6


def test_an_infinite_softcap_is_none(implementation: Implementation) -> None:
    side = torch.randn(1, 2, 7, 5)
    one, two = (
        implementation.observe(Call(side, side, side, Scoring(softcap=cap)), EVERYTHING)
        for cap in (None, math.inf)
    )
    assert torch.equal(one.lse, two.lse)
    assert two.scoring.softcap is None


@pytest.mark.parametrize("offset", [2**40, 2**62 - 1, -(2**62) + 1])
def test_positions_far_away_are_counted_exactly(
    implementation: Implementation, offset: int
) -> None:
    side = torch.zeros(1, 1, 5, 3)
    mask = window(None, 0) if offset > 0 else window(0, 2**70)
    call = Call(side, side, side, Scoring(offset=offset, mask=mask))
    seen = implementation.observe(call, EVERYTHING)
    assert torch.allclose(seen.lse, torch.tensor(5.0).log())
    assert torch.allclose(seen.statistics.distance, torch.tensor(float(abs(offset))))
    assert torch.all(seen.statistics.on_future == (0 if offset > 0 else 1))


@pytest.mark.parametrize(("dim", "wide"), [(0, 3), (3, 0), (0, 0)])
def test_vectors_may_have_no_width(dim: int, wide: int) -> None:
    query, key = torch.zeros(1, 2, 3, dim, requires_grad=True), torch.zeros(1, 1, 5, dim)
    value = torch.ones(1, 1, 5, wide)
    seen = observe(query, key, value)
    assert torch.allclose(seen.lse, torch.tensor(5.0).log())
    assert seen.context.shape == (1, 2, 3, wide)
    seen.context.sum().backward()
    assert query.grad.shape == query.shape
