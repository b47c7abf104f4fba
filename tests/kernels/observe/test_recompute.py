import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import InputError, ShapeError
from regard.kernels.observe import ObserveOptions, Region, Scoring, observe, received, window
from regard.kernels.observe.call import Call
from regard.kernels.observe.choice import Implementation
from regard.masks import causal

from .cases import a_call
from .laws import assert_close
from .reference import pooled, reference, rounding

shared = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
seeds = st.integers(0, 10**9)


def size(call: Call) -> float:
    return rounding(call, reference(call).lse)


@given(seed=seeds, zoom=st.sampled_from([1, 2, 3, 8, 50, 101]), data=st.data())
@shared
def test_a_window_is_the_map_itself_pooled(
    implementation: Implementation, seed: int, zoom: int, data: st.DataObject
) -> None:
    call = a_call(seed)
    batch, heads, queries, keys = call.sizes
    top, left = data.draw(st.integers(0, queries - 1)), data.draw(st.integers(0, keys - 1))
    region = Region(range(top, queries), range(left, keys), heads - 1, batch - 1, zoom)
    wanted = reference(call)
    seen = implementation.pool_region(call, wanted.lse.float(), region)
    mean, largest = pooled(wanted.weights[batch - 1, heads - 1, top:, left:], zoom, zoom)
    assert_close("largest", seen.largest, largest, 3e-5 * size(call))
    total = mean * cell_sizes(region)
    assert_close("sum", seen.mean, total, 3e-5 * size(call) * zoom)


def cell_sizes(region: Region) -> torch.Tensor:
    rows, columns = (
        torch.tensor([len(side[i : i + region.zoom]) for i in range(0, len(side), region.zoom)])
        for side in (region.rows, region.columns)
    )
    return rows[:, None] * columns


@given(seed=seeds)
@shared
def test_what_keys_receive_is_the_sum_of_their_column(
    implementation: Implementation, seed: int
) -> None:
    call = a_call(seed)
    batch, _, queries, keys = call.sizes
    labels = torch.randint(-1, 4, (batch, keys))
    wanted = reference(call)
    total, by_label = implementation.sum_received(call, wanted.lse.float(), labels, 4)
    assert_close("total", total / queries, wanted.weights.sum(2) / queries, 3e-5 * size(call))
    member = (labels[..., None] == torch.arange(4)).double()
    expected = wanted.weights @ member[:, None]
    assert_close("by_label", by_label, expected, 3e-5 * size(call))


def a_pair() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    query, key = torch.randn(1, 3, 11, 5), torch.randn(1, 3, 13, 5)
    return query, key, observe(query, key, key).lse


def test_cells_at_the_edge_are_means_over_what_is_there() -> None:
    query, key, lse = a_pair()
    seen = window(query, key, lse, Region(range(11), range(13), head=2, zoom=4))
    weights = torch.softmax(query @ key.mT / 5**0.5, -1)[0, 2]
    assert torch.allclose(seen.mean[2, 3], weights[8:, 12:].mean())


@pytest.mark.parametrize("zoom", [13, 2**62, 2**63 - 1, 2**64])
def test_a_zoom_beyond_the_region_is_one_cell(zoom: int) -> None:
    query, key, lse = a_pair()
    seen = window(query, key, lse, Region(range(11), range(13), zoom=zoom))
    assert torch.allclose(seen.mean, torch.tensor([[1 / 13]]))


def test_rows_without_a_softmax_are_nan_for_every_key(implementation: Implementation) -> None:
    query, key = torch.randn(1, 1, 53, 5), torch.randn(1, 1, 307, 5)
    query[0, 0, 7] = torch.nan
    call = Call(query, key, key, Scoring(mask=causal()))
    lse = implementation.observe(call, ObserveOptions()).lse
    pooled = implementation.pool_region(call, lse, Region(range(53), range(200, 307)))
    for numbers in (pooled.mean, pooled.largest):
        assert torch.equal(numbers.isnan().any(1), torch.arange(53) == 7)
        assert numbers[7].isnan().all()
    total, by_label = implementation.sum_received(call, lse, torch.zeros(1, 307).long(), 1)
    assert total.isnan().all()
    assert torch.equal(by_label[0, 0, :, 0].isnan(), torch.arange(53) == 7)


def test_an_empty_region_has_no_cells() -> None:
    query, key, lse = a_pair()
    assert window(query, key, lse, Region(range(0), range(13))).mean.shape == (0, 13)


@pytest.mark.parametrize("lowest", [-1, -(2**31) - 1, -(2**32) + 5_000_000, -(2**63)])
def test_any_negative_label_is_left_out(implementation: Implementation, lowest: int) -> None:
    query, key, lse = a_pair()
    labels = torch.tensor([[lowest, *[0] * 11, 1]])
    by_label = implementation.sum_received(Call(query, key, key, Scoring()), lse, labels, 2)[1]
    weights = torch.softmax(query @ key.mT / 5**0.5, -1)
    expected = torch.stack([weights[..., 1:12].sum(-1), weights[..., 12]], -1)
    torch.testing.assert_close(by_label, expected)


def test_labels_that_do_not_fit_are_refused() -> None:
    query, key, lse = a_pair()
    with pytest.raises(InputError, match=r"expected labels below 2\*\*31, got 1099511627776"):
        received(query, key, lse, labels=torch.full((1, 13), 2**40))


def test_received_without_labels_has_totals_alone() -> None:
    query, key, lse = a_pair()
    seen = received(query, key, lse)
    assert seen.by_label is None
    assert torch.allclose(seen.total.sum(-1), torch.tensor(11.0))


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (Region(range(12), range(13)), "expected a region within batch=1 head=3 query=11 key=13"),
        (Region(range(0, 10, 2), range(13)), "with a step of 1"),
        (Region(range(3), range(3), head=3), "expected a region within"),
        (Region(range(3), range(3), zoom=0), "expected a zoom of at least 1, got 0"),
    ],
)
def test_a_region_outside_the_call_is_refused(region: Region, message: str) -> None:
    query, key, lse = a_pair()
    with pytest.raises(InputError, match=message):
        window(query, key, lse, region)


@pytest.mark.usefixtures("unchecked")
def test_the_lse_of_another_call_is_refused() -> None:
    query, key, lse = a_pair()
    with pytest.raises(ShapeError, match=r"expected the lse of this call, torch.float32 .*11\)"):
        received(query, key, lse[..., :-1])


@pytest.mark.usefixtures("unchecked")
def test_labels_must_be_one_whole_number_for_each_key() -> None:
    query, key, lse = a_pair()
    with pytest.raises(ShapeError, match=r"expected labels with the axes \(batch key\) = \(1, 13"):
        received(query, key, lse, labels=torch.zeros(1, 11, dtype=torch.long))
