"""The learning rate rises over the warm-up and then falls as its name says."""

import math

import pytest

from regard.errors import InputError, UnknownNameError
from regard.training.schedules import SCHEDULES, schedule

WARMUP, TOTAL = 31, 503


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_peaks_at_one_at_the_end_of_its_warm_up(name: str) -> None:
    shares = [schedule(name, WARMUP, TOTAL)(step) for step in range(1, TOTAL + 1)]
    assert max(shares) == shares[WARMUP - 1] == 1.0
    assert shares[: WARMUP - 1] == sorted(shares[: WARMUP - 1])


def test_the_inverse_square_root_halves_when_the_steps_are_fourfold() -> None:
    share = schedule("inverse-square-root", WARMUP, TOTAL)
    assert math.isclose(share(4 * WARMUP), 0.5)


def test_the_cosine_is_half_way_down_in_the_middle_and_ends_at_zero() -> None:
    share = schedule("cosine", 3, 103)
    assert math.isclose(share(53), 0.5)
    assert share(103) == 0.0


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warm_up_is_allowed(name: str) -> None:
    assert schedule(name, 0, TOTAL)(1) > 0.9


def test_bad_schedules_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cosine'"):
        schedule("cosin", WARMUP, TOTAL)
    with pytest.raises(InputError, match="warm-up of at least 0"):
        schedule("cosine", -1, TOTAL)
