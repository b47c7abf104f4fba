import pytest
import torch

from regard.tracing.statistics.numbers import LAST, MEASURES, example_numbers, mean_over
from tracing.statistics.test_rows import HEADS, of, weights

ACROSS = ("distance", "locality", "on_self", "on_previous", "on_next", "on_future")


def test_every_measure_has_a_number_for_each_head_of_each_example():
    found = example_numbers(of(weights(batch=7)), ("", "on_marked"))
    assert {*MEASURES, "on_marked", LAST} <= {*found}
    assert {tuple(each.shape) for each in found.values()} == {(7, HEADS)}


@pytest.mark.parametrize("name", ACROSS)
def test_places_mean_nothing_between_two_texts(name):
    found = example_numbers(of(weights(queries=2), streams=("x", "y")), ())
    assert found[name].isnan().all()
    assert found["on_first"].isfinite().all()


def test_evenness_is_of_rows_that_may_see_several_keys():
    found = weights(1).tril()
    found = found / found.sum(-1, keepdim=True)
    entropy = -torch.special.xlogy(found, found).sum(-1)[..., 1:].double()
    expected = (entropy / torch.arange(2, 6).log()).mean(-1)
    torch.testing.assert_close(example_numbers(of(found), ())["evenness"], expected)


def test_a_text_of_one_token_has_no_evenness():
    found = example_numbers(of(torch.ones(1, HEADS, 1, 1)), ())
    assert found["evenness"].isnan().all()
    assert not found["entropy"].any()


def test_rows_that_do_not_sum_to_one_deviate_by_the_worst_of_them():
    found = weights()
    found[1, 2, 3] *= 0.75
    kinds = torch.zeros(2, 5, dtype=torch.long)
    deviation = example_numbers(of(found, kinds=kinds), ("",))[LAST]
    assert deviation[1, 2].item() == pytest.approx(0.25, abs=1e-6)
    assert deviation.sum().item() == pytest.approx(0.25, abs=1e-5)


def test_the_mean_over_no_row_is_not_a_number():
    rows, which = torch.ones(1, 2, 3).double(), torch.tensor([[[0, 1, 1], [0, 0, 0]]]).bool()
    assert mean_over(rows, which)[0, 0] == 1
    assert mean_over(rows, which)[0, 1].isnan()
