import pytest

from regard.views.figure.canvas import cut_end, text_width


def test_a_chinese_character_is_as_wide_as_it_is_high():
    assert text_width("爱", 10) == pytest.approx(10, abs=0.6)
    assert text_width("爱你", 10) == pytest.approx(20, abs=0.6)


def test_a_label_is_cut_where_its_room_ends():
    assert cut_end("short", 7, 90) == "short"
    found = cut_end("antidisestablishmentarianism", 7, 41)
    assert found.endswith("…")
    assert 30 < text_width(found, 7) <= 41
