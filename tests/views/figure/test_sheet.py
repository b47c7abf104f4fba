import pytest

from regard.views.figure.sheet import cut, measured


def test_a_chinese_character_is_as_wide_as_it_is_high():
    assert measured("爱", 10) == pytest.approx(10, abs=0.6)
    assert measured("爱你", 10) == pytest.approx(20, abs=0.6)


def test_a_label_is_cut_where_its_room_ends():
    assert cut("short", 7, 90) == "short"
    found = cut("antidisestablishmentarianism", 7, 41)
    assert found.endswith("…")
    assert 30 < measured(found, 7) <= 41
