import pytest

from regard.unicode import (
    HAN_CHARACTER,
    HAN_OR_KANA_CHARACTER,
    KANA_CHARACTER,
    replace_controls,
)


@pytest.mark.parametrize("character", ["一", "国", "㐀", "\u9fff", "豈", "𠀀", "\U00030000"])
def test_ideographs_of_every_block_are_han(character):
    assert HAN_CHARACTER.fullmatch(character)
    assert HAN_OR_KANA_CHARACTER.fullmatch(character)
    assert not KANA_CHARACTER.fullmatch(character)


@pytest.mark.parametrize("character", ["あ", "ア", "ー", "ん"])
def test_kana_are_not_han(character):
    assert KANA_CHARACTER.fullmatch(character)
    assert HAN_OR_KANA_CHARACTER.fullmatch(character)
    assert not HAN_CHARACTER.fullmatch(character)


@pytest.mark.parametrize("character", ["a", "é", "。", "，", "한", "䷀", "1", " ", "Я", "😀"])
def test_other_characters_are_neither(character):
    assert not HAN_OR_KANA_CHARACTER.fullmatch(character)


def test_a_word_cannot_steer_the_terminal():
    assert replace_controls("a\x1b[31m\x9b\x7f爱👨‍👩‍👧") == "a\ufffd[31m\ufffd\ufffd爱👨‍👩‍👧"
