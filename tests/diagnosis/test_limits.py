from math import nan

import pytest

from regard.diagnosis.limits import LIMITS, Limit


@pytest.mark.parametrize(("side", "value", "crossed"), [("above", 2, True), ("below", 2, False)])
def test_a_limit_is_crossed_on_its_side_alone(side, value, crossed):
    assert Limit(1.0, side, "").crossed(value) is crossed
    assert Limit(1.0, side, "").crossed(0) is not crossed


def test_what_is_not_known_crosses_nothing():
    assert not any(Limit(1.0, side, "").crossed(nan) for side in ("above", "below"))


def test_every_limit_says_where_it_comes_from():
    assert all(limit.source for limit in LIMITS.values())
