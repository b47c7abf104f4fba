import pytest
import torch
from torch._subclasses import FakeTensorMode

from regard.errors import ShapeError
from regard.kernels.observe.choice import Implementation
from regard.kernels.pair_sums import pair_gradients, pair_sums, supports_pair_sums

SIZES = [(1, 1, 1, 1), (2, 3, 5, 7), (3, 13, 11, 67), (1, 17, 29, 131)]


def sides(rows, queries, keys, hidden):
    left = torch.rand(rows, queries, hidden) * 3
    right = torch.rand(rows, keys, hidden) * 3
    return left, right, torch.randn(hidden), torch.randn(rows, queries, keys)


def rest(left, right):
    return 1 / (1 + left.double()[:, :, None] * right.double()[:, None])


@pytest.mark.parametrize("sizes", SIZES)
def test_sums_are_those_of_every_pair(native: Implementation, sizes):
    left, right, v, _ = sides(*sizes)
    wanted = rest(left, right) @ v.double()
    torch.testing.assert_close(pair_sums(left, right, v).double(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_slopes_are_those_of_every_pair(native: Implementation, sizes):
    left, right, _, gradient = sides(*sizes)
    r, g = rest(left, right), gradient.double()[..., None]
    wanted = ((g * r * (1 - r)).sum(2), (g * r * (1 - r)).sum(1), (g * r).sum(2))
    came = pair_gradients(left, right, gradient.mT.contiguous().mT)
    for one, other in zip(came, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-5, rtol=1e-5)


def test_infinite_products_leave_nothing(native: Implementation):
    left, right = torch.full((1, 2, 19), torch.inf), torch.ones(1, 3, 19)
    assert (pair_sums(left, right, torch.ones(19)) == 0).all()


def test_other_dtypes_are_not_taken():
    assert not supports_pair_sums(torch.zeros(1, 1, 1).double())


@pytest.mark.usefixtures("unchecked")
def test_sides_that_do_not_fit_together_are_refused(native: Implementation):
    left, right, v, gradient = sides(2, 3, 5, 7)
    message = r"sums over pairs expected float32 tensors on the CPU, \(row query hidden\)"
    for wrong in ((left, right[..., :5], v), (left, right, v[:5]), (left, right, v.double())):
        with pytest.raises(ShapeError, match=message):
            pair_sums(*wrong)
    with pytest.raises(ShapeError, match=message):
        pair_gradients(left, right, gradient.mT)


def test_a_lazy_negation_is_read_as_it_is(native: Implementation):
    left, right, v, gradient = sides(2, 3, 5, 7)
    negated = [torch._neg_view(-side) for side in (left, right, v)]
    assert torch.equal(pair_sums(*negated), pair_sums(left, right, v))
    slopes = pair_gradients(left, right, torch._neg_view(-gradient))
    for one, other in zip(slopes, pair_gradients(left, right, gradient), strict=True):
        assert torch.equal(one, other)


@pytest.mark.usefixtures("unchecked")
def test_fake_sides_are_not_taken(native: Implementation):
    with FakeTensorMode():
        assert not supports_pair_sums(torch.zeros(1, 1, 1))


@pytest.mark.parametrize("sizes", [(0, 3, 5, 7), (2, 0, 5, 7), (2, 3, 0, 7), (2, 3, 5, 0)])
def test_an_axis_may_be_empty(native: Implementation, sizes):
    left, right, v, gradient = sides(*sizes)
    assert torch.equal(pair_sums(left, right, v), torch.zeros(sizes[:3]))
    for slope, side in zip(pair_gradients(left, right, gradient), (left, right, left), strict=True):
        assert torch.equal(slope, torch.zeros_like(side))
