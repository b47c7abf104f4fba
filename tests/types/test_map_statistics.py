from dataclasses import fields, replace

import pytest
import torch

from regard import masks
from regard.errors import InputError
from regard.kernels.observe import ObserveOptions, Scoring, Statistics, observe
from regard.types import DenseWeights, RecomputableWeights, SummaryOnly, map_statistics
from traces import BIASES, COLUMNS, HEADS, MASKS, ROWS, a_map, a_scoring, by_definition

EVERY_SCORING = [(mask, "none") for mask in MASKS] + [("padding", bias) for bias in BIASES]
NAMES = [each.name for each in fields(Statistics)]


@pytest.fixture(params=[1, 200, 1 << 21], ids=["rows", "strips", "whole"])
def _strip(request, monkeypatch):
    monkeypatch.setattr(map_statistics, "MAX_STRIP_WEIGHTS", request.param)
    monkeypatch.setattr(map_statistics.row_strips, "__defaults__", (request.param,))


def plain(weights, sink, offset):
    """Each number of the rows by its definition, with loops."""
    found = {name: torch.zeros(weights.shape[:2], dtype=torch.float64) for name in NAMES}
    for head, row, key in torch.cartesian_prod(*map(torch.arange, weights.shape)).tolist():
        weight, ahead = weights[head, row, key], key - row - offset
        found["entropy"][head, row] -= torch.special.xlogy(weight, weight)
        found["distance"][head, row] += weight * abs(ahead)
        found["on_first"][head, row] += weight * (key == 0)
        found["on_future"][head, row] += weight * (ahead > 0)
        for name, where in (("on_self", 0), ("on_previous", -1), ("on_next", 1)):
            found[name][head, row] += weight * (ahead == where)
    found["largest"], key = weights.max(dim=-1)
    found["largest_key"] = key.masked_fill(found["largest"] == 0, -1).int()
    found["on_sink"] = sink
    found["entropy"] -= torch.special.xlogy(sink, sink)
    return found


@pytest.mark.usefixtures("_strip")
@pytest.mark.parametrize(("mask", "bias"), EVERY_SCORING)
def test_numbers_of_a_recomputable_map_are_those_that_its_call_saw(mask, bias):
    each = a_map(a_scoring(mask, bias))
    found = replace(each, statistics=None).row_statistics
    for name in NAMES:
        expected = getattr(each.statistics, name)
        torch.testing.assert_close(getattr(found, name), expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize(("mask", "bias"), EVERY_SCORING)
def test_numbers_are_those_of_the_definition_in_double_precision(mask, bias):
    each = a_map(a_scoring(mask, bias), dtype=torch.float64)
    weights = by_definition(each)
    sink = 1 - weights.sum(dim=-1)
    expected = plain(weights, sink, each.offset)
    found = replace(each, statistics=None).row_statistics
    for name in NAMES:
        torch.testing.assert_close(getattr(found, name), expected[name], atol=1e-12, rtol=1e-9)


@pytest.mark.usefixtures("_strip")
def test_numbers_of_dense_weights_are_those_of_the_definition():
    weights = torch.rand(3, 7, 11, dtype=torch.float64).softmax(-1)
    found = map_statistics.compute_statistics(DenseWeights(weights), 2)
    expected = plain(weights, torch.zeros(3, 7, dtype=torch.float64), 2)
    for name in NAMES:
        torch.testing.assert_close(getattr(found, name), expected[name], atol=1e-14, rtol=1e-9)


def test_dense_weights_in_half_precision_are_counted_in_single():
    weights = torch.rand(3, 7, 11).softmax(-1).bfloat16()
    found = map_statistics.compute_statistics(DenseWeights(weights), 0)
    assert found.entropy.dtype == torch.float32
    expected = map_statistics.compute_statistics(DenseWeights(weights.double()), 0)
    torch.testing.assert_close(found.entropy.double(), expected.entropy, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_queries_in_half_precision_are_counted_as_their_call_saw_them(dtype):
    each = a_map(dtype=dtype)
    found = replace(each, statistics=None).row_statistics
    torch.testing.assert_close(found.entropy, each.statistics.entropy, atol=2e-6, rtol=1e-5)
    assert found.entropy.dtype == torch.float32


def test_a_row_that_sees_nothing_has_zeros_and_no_largest_key():
    found = map_statistics.compute_statistics(DenseWeights(torch.zeros(3, 5, 7)), 0)
    assert (found.largest_key == -1).all()
    assert all((getattr(found, name) == 0).all() for name in NAMES if name != "largest_key")


def test_a_row_that_is_not_finite_says_so_in_its_numbers():
    weights = torch.rand(3, 5, 7)
    weights[1, 2, 3] = torch.nan
    found = map_statistics.compute_statistics(DenseWeights(weights), 0)
    assert found.entropy.isnan().sum() == found.largest.isnan().sum() == 1


@pytest.mark.parametrize("shape", [(3, 0, 7), (3, 5, 0)])
def test_a_map_of_no_rows_or_columns_can_be_counted(shape):
    source = DenseWeights(torch.rand(shape))
    assert map_statistics.compute_statistics(source, 0).entropy.shape == shape[:2]
    assert map_statistics.sum_received(source, torch.zeros(shape[2]).long()).total.shape == (
        3,
        shape[2],
    )


def test_numbers_of_a_summary_without_statistics_are_refused_with_the_way_out():
    with pytest.raises(InputError, match="no weights and no statistics of its rows; watch again"):
        map_statistics.compute_statistics(SummaryOnly((3, 5, 7)), 0)


@pytest.mark.usefixtures("_strip")
@pytest.mark.parametrize(("mask", "bias"), EVERY_SCORING)
@pytest.mark.parametrize("dense", [False, True])
def test_columns_receive_the_sums_of_their_weights(mask, bias, dense):
    each = a_map(a_scoring(mask, bias))
    weights = by_definition(each)
    source = DenseWeights(weights.float()) if dense else each.source
    labels = torch.arange(COLUMNS) % 4 - 1
    found = map_statistics.sum_received(source, labels)
    torch.testing.assert_close(found.total.double(), weights.sum(dim=1), atol=1e-5, rtol=0)
    expected = torch.stack([weights[..., labels == n].sum(-1) for n in range(3)], dim=-1)
    torch.testing.assert_close(found.by_label.double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("labels", [None, torch.full((COLUMNS,), -1)])
def test_labels_that_count_nowhere_leave_only_totals(labels):
    for source in (a_map().source, DenseWeights(torch.rand(HEADS, ROWS, COLUMNS))):
        found = map_statistics.sum_received(source, labels)
        assert found.total.shape == (HEADS, COLUMNS)
        expected = None if labels is None else (HEADS, ROWS, 0)
        assert (None if found.by_label is None else tuple(found.by_label.shape)) == expected


def test_sums_of_a_summary_are_refused_with_the_way_out():
    with pytest.raises(InputError, match="too coarse for sums of single columns; watch again with"):
        map_statistics.sum_received(SummaryOnly((3, 5, 7)), None)


@pytest.mark.usefixtures("_strip")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("offset", [-3, 0, 2, 20])
def test_visible_columns_are_those_that_the_mask_shows(mask, offset):
    sizes = (HEADS, ROWS, COLUMNS)
    found = map_statistics.count_visible(MASKS[mask], sizes, offset)
    shown = (MASKS[mask] or masks.everything()).dense(ROWS, COLUMNS, offset=offset)[0]
    assert torch.equal(found, shown.expand(sizes).sum(dim=-1))


@pytest.mark.parametrize("most", [1, 100, 1000])
@pytest.mark.parametrize("dense", [False, True])
def test_strips_cover_the_map_and_stay_small(most, dense):
    each = a_map()
    source = DenseWeights(each.weights()) if dense else each.source
    found = list(map_statistics.row_strips(source, most))
    assert [row for run, _ in found for row in run] == list(range(ROWS))
    assert all(weights.numel() <= max(most, HEADS * COLUMNS) for _, weights in found)
    torch.testing.assert_close(torch.cat([each for _, each in found], dim=1), each.weights())


def test_a_long_map_is_counted_in_little_memory():
    query, key = torch.randn(2, 1, 2, 4099, 8).unbind()
    seen = observe(query, key, key, mask=masks.causal(), keep=ObserveOptions(atlas=0))
    source = RecomputableWeights(query[0], key[0], seen.lse[0], Scoring(mask=masks.causal()))
    largest = max(weights.numel() for _, weights in map_statistics.row_strips(source))
    assert largest <= map_statistics.MAX_STRIP_WEIGHTS < 4099 * 4099 / 4
    found = map_statistics.compute_statistics(source, 0)
    expected = seen.statistics.entropy[0]
    torch.testing.assert_close(found.entropy, expected, atol=1e-4, rtol=0)
