import math

import pytest
import torch

from regard import masks
from regard.errors import InputError, ShapeError


def bucket(distance: int, buckets: int, both_ways: bool, far: int) -> int:
    """The bucket of key minus query, from the definition of Raffel et al. 2020."""
    start = 0
    if both_ways:
        buckets //= 2
        start = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    grown = exact + int(math.log(distance / exact) / math.log(far / exact) * (buckets - exact))
    return start + min(grown, buckets - 1)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("offset", [0, 11])
def test_t5_buckets_are_those_of_the_paper(both_ways, offset):
    table = torch.randn(8, 3)
    dense = masks.t5_buckets(table, both_ways=both_ways, far=20).dense(37, 41, offset=offset)
    for i, j in ((0, 0), (3, 1), (36, 0), (0, 40), (20, 29), (5, 36)):
        row = bucket(j - i - offset, 8, both_ways, 20)
        assert torch.equal(dense[0, :, i, j], table[row])


def test_alibi_falls_with_the_distance_by_the_slope_of_each_head():
    dense = masks.alibi(8).dense(5, 7, offset=2)[0]
    assert dense[0, 0].tolist() == [-1.0, -0.5, 0.0, -0.5, -1.0, -1.5, -2.0]
    assert dense[7, 4, 0].item() == pytest.approx(-6 * 2**-8)


def test_alibi_of_heads_that_are_no_power_of_two_fills_up_from_the_next():
    slopes = [-float(masks.alibi(6).dense(1, 2)[0, head, 0, 1]) for head in range(6)]
    assert slopes == pytest.approx([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])


def test_biases_are_added():
    numbers = torch.randn(5, 7)
    both = masks.alibi(3) + masks.tensor_bias(numbers)
    torch.testing.assert_close(both.dense(5, 7), masks.alibi(3).dense(5, 7) + numbers)
    assert str(both + masks.t5_buckets(torch.zeros(4, 3))) == (
        "alibi(3) + tensor_bias(1x1x5x7) + t5_buckets(4x3, far=128)"
    )


def test_a_bias_survives_the_way_to_disk_and_back():
    bias = (
        masks.alibi(3) + masks.t5_buckets(torch.randn(8, 3)) + masks.tensor_bias(torch.randn(5, 7))
    )
    assert masks.restore(bias.state()) == bias


def test_a_part_is_the_bias_of_one_example_s_rectangle():
    tensor = masks.tensor_bias(torch.randn(2, 3, 5, 7))
    bias = masks.alibi(3) + masks.t5_buckets(torch.randn(8, 3), far=20) + tensor
    part = masks.Part(1, range(2, 5), range(1, 6))
    dense = bias.within(part).dense(3, 5, offset=4 + part.moved)
    torch.testing.assert_close(dense, bias.dense(5, 7, offset=4)[1:, :, 2:5, 1:6])
    some = masks.Part(1, range(5), range(7), heads=(2, 0))
    torch.testing.assert_close(bias.within(some).dense(5, 7), bias.dense(5, 7)[1:, [2, 0]])


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (masks.alibi(2), r"ALiBi should broadcast to \(batch=2 head=3.*got \(1, 2, 1, 1\)"),
        (masks.t5_buckets(torch.zeros(4, 2)), r"the bucket table should broadcast"),
        (masks.alibi(3) + masks.tensor_bias(torch.zeros(5, 6)), r"the bias should broadcast"),
    ],
    ids=str,
)
def test_a_bias_that_does_not_fit_the_call_says_so(bias, message):
    with pytest.raises(ShapeError, match=message):
        bias.check(2, 3, 5, 7)


@pytest.mark.usefixtures("unchecked")
def test_biases_refuse_what_they_cannot_take():
    with pytest.raises(InputError, match="alibi expected at least one head, got 0"):
        masks.alibi(0)
    with pytest.raises(ShapeError, match=r"t5_buckets expected a table \(bucket >= 4, head\)"):
        masks.t5_buckets(torch.zeros(3))
    with pytest.raises(ShapeError, match=r"expected floating-point numbers.*masks\.explicit"):
        masks.tensor_bias(torch.ones(2, 3) > 0)
