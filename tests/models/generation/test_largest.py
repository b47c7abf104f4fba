import pytest
import torch

from regard.models.generation.largest import largest


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("columns", [13, 64, 1031, 5003])
def test_the_largest_are_those_of_topk(columns, count):
    values = torch.randn(7, columns)
    ours, theirs = largest(values, count), values.topk(count, dim=1)
    assert torch.equal(ours[0], theirs.values)
    assert torch.equal(ours[1], theirs.indices)


def test_infinite_and_equal_numbers_are_found_once_each():
    values = torch.full((2, 4099), -torch.inf)
    values[0, [5, 4098]] = 1.0
    top, where = largest(values, 3)
    assert top[0].tolist() == [1.0, 1.0, -torch.inf]
    assert {*where[0, :2].tolist()} == {5, 4098}
    assert all(len({*row}) == 3 for row in where.tolist())


def test_nan_counts_as_the_largest():
    values = torch.randn(1, 4099)
    values[0, 777] = torch.nan
    top, where = largest(values, 2)
    assert top[0, 0].isnan()
    assert where[0, 0] == 777


def test_columns_of_a_wider_tensor_are_read_in_place():
    values = torch.randn(3, 9001)[:, 7:]
    assert torch.equal(largest(values, 5)[1], values.topk(5, dim=1).indices)
