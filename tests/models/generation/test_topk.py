import pytest
import torch

from regard.kernels.decode import topk
from regard.models.generation.topk import largest_per_row, logsumexp_per_row


@pytest.fixture(autouse=True, params=["native", "torch"])
def way(request, monkeypatch):
    """With the native kernel, where it is built, and without."""
    if request.param == "torch":
        monkeypatch.setattr(topk, "supports_topk", lambda *_: False)


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("columns", [13, 64, 1031, 5003])
def test_the_largest_are_those_of_topk(columns, count):
    values = torch.randn(7, columns)
    ours, theirs = largest_per_row(values, count), values.topk(count, dim=1)
    assert torch.equal(ours[0], theirs.values)
    assert torch.equal(ours[1], theirs.indices)


def test_infinite_and_equal_numbers_are_found_once_each():
    values = torch.full((2, 4099), -torch.inf)
    values[0, [5, 4098]] = 1.0
    top, where = largest_per_row(values, 3)
    assert top[0].tolist() == [1.0, 1.0, -torch.inf]
    assert {*where[0, :2].tolist()} == {5, 4098}
    assert all(len({*row}) == 3 for row in where.tolist())


def test_columns_of_a_wider_tensor_are_read_in_place():
    values = torch.randn(3, 9001)[:, 7:]
    assert torch.equal(largest_per_row(values, 5)[1], values.topk(5, dim=1).indices)


@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("columns", [7, 1031, 5003])
def test_the_totals_are_those_of_torch(rows, columns):
    values = torch.randn(rows, columns) * 7
    expected = values.double().logsumexp(dim=1)
    torch.testing.assert_close(logsumexp_per_row(values).double(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [0, 777, 5002])
def test_a_total_of_what_is_no_number_is_none(wrong, place):
    values = torch.randn(3, 5003)
    values[1, place] = wrong
    assert logsumexp_per_row(values).isfinite().tolist() == [True, False, True]


def test_minus_infinity_adds_nothing():
    values = torch.randn(2, 4099)
    half = values.clone()
    half[:, 1000:] = -torch.inf
    torch.testing.assert_close(logsumexp_per_row(half), values[:, :1000].logsumexp(dim=1))
    assert not logsumexp_per_row(torch.full((1, 4099), -torch.inf)).isfinite()


def test_a_difference_far_from_zero_is_kept():
    values = torch.tensor([[1e4, 1e4 + 1.0] + [-1e4] * 4097])
    torch.testing.assert_close(logsumexp_per_row(values), torch.tensor([1e4 + 1.3132617]))
