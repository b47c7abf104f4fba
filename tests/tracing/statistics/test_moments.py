import pytest
import torch

from regard.tracing.statistics.moments import Moments

EXAMPLES, MEASURES, HEADS = 7, 3, 5


def values(count=EXAMPLES, offset=0.0):
    return torch.randn(count, MEASURES, HEADS).double() + offset


def test_they_are_the_mean_and_the_standard_deviation_over_examples():
    numbers = values()
    found = Moments.of(numbers)
    torch.testing.assert_close(found.means, numbers.mean(dim=0))
    torch.testing.assert_close(found.spread, numbers.std(dim=0))


@pytest.mark.parametrize("cut", [0, 1, 4, EXAMPLES])
def test_parts_add_up_to_the_whole(cut):
    numbers = values()
    found = Moments.of(numbers[:cut]) + Moments.of(numbers[cut:])
    expected = Moments.of(numbers)
    for name, part in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), part, rtol=1e-12, atol=1e-14)


def test_small_spreads_far_from_zero_keep_their_digits():
    numbers = values(1000, offset=1e8)
    parts = [Moments.of(each) for each in numbers.split(13)]
    total = sum(parts[1:], parts[0])
    torch.testing.assert_close(total.spread, numbers.std(dim=0), rtol=1e-6, atol=0)


def test_an_example_whose_number_is_not_finite_counts_for_the_others_only():
    numbers = values()
    numbers[2, 1, 4], numbers[5, 1, 4] = torch.nan, torch.inf
    found = Moments.of(numbers)
    assert found.count[1, 4] == EXAMPLES - 2
    assert found.count.sum() == EXAMPLES * MEASURES * HEADS - 2
    torch.testing.assert_close(found.means[1, 4], numbers[[0, 1, 3, 4, 6], 1, 4].mean())


def test_what_no_example_has_is_not_a_number():
    found = Moments.of(torch.full((2, 1, 1), torch.nan))
    assert found.means.isnan()
    assert found.spread.isnan()


def test_one_example_has_no_spread():
    assert Moments.of(values(1)).spread.isnan().all()
