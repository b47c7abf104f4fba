import pytest
from rich.cells import cell_len

from regard.views.wrapping import line_break_parts, split_word, wrap_text


def test_words_stay_whole_and_ideographs_part():
    assert line_break_parts("We love 中国人。Yes") == ["We", " love", " 中", "国", "人。", "Yes"]


@pytest.mark.parametrize("text", ["where do models look " * 5, "模型看向何处？" * 9, "x" * 97])
def test_no_line_is_wider_than_its_room_and_nothing_is_lost(text):
    lines = wrap_text(text, 23, cell_len)
    assert len(lines) > 2
    assert all(cell_len(line) <= 23 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_closing_mark_never_begins_a_line():
    for text in ("我爱你。" * 11, "最大 25.3%。" * 7):
        assert not any(line.startswith("。") for line in wrap_text(text, 17, cell_len))


def test_a_character_wider_than_the_room_stays():
    assert split_word("爱", 1, cell_len) == ["爱"]
