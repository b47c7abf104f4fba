import math

import pytest
import torch
from torch._subclasses import FakeTensorMode

from regard.kernels.decode.topk import native_logsumexp, native_topk, supports_topk
from regard.kernels.observe.choice import Implementation


def rows_with(*numbers: float) -> torch.Tensor:
    """Three rows of 1031 numbers, the second with some of these at its places 1, 400, 1030."""
    torch.manual_seed(7)
    rows = torch.randn(3, 1031)
    for place, number in zip((1, 400, 1030), numbers, strict=False):
        rows[1, place] = number
    return rows


@pytest.mark.parametrize(
    "numbers",
    [(), (math.nan,), (math.nan, math.nan, math.nan), (math.inf, math.nan), (math.inf, -math.inf)],
    ids=str,
)
@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_the_largest_are_those_of_torch(
    native: Implementation, numbers: tuple[float, ...], count: int
) -> None:
    rows = rows_with(*numbers)
    values, columns = native_topk(rows, count)
    torch.testing.assert_close(values, rows.topk(count).values, equal_nan=True)
    torch.testing.assert_close(rows.gather(1, columns), values, equal_nan=True)


def test_columns_of_a_row_of_nan_lie_in_the_row(native: Implementation) -> None:
    values, columns = native_topk(torch.full((2, 1031), math.nan), 3)
    assert values.isnan().all()
    assert columns.tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e38])
def test_logsumexp_is_that_of_torch(native: Implementation, number: float) -> None:
    rows = rows_with(number)
    rows[2] = -math.inf
    torch.testing.assert_close(native_logsumexp(rows), rows.logsumexp(1), equal_nan=True)


@pytest.mark.usefixtures("unchecked")
def test_what_native_code_cannot_read_is_not_taken(native: Implementation) -> None:
    rows = rows_with()
    assert supports_topk(rows, 64)
    assert not supports_topk(rows, 0)
    assert not supports_topk(rows, 65)
    assert not supports_topk(torch._neg_view(rows))
    with FakeTensorMode():
        assert not supports_topk(torch.zeros(3, 1031))
