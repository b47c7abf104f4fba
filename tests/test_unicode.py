import json

import pytest

from regard.unicode import (
    HAN_CHARACTER,
    HAN_OR_KANA_CHARACTER,
    KANA_CHARACTER,
    cut_text,
    escape_controls,
    replace_controls,
    spell_controls,
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


@pytest.mark.parametrize(
    "text", ["👨‍👩‍👧", "❤️‍🔥", "1️⃣", "می‌خواهم", "क्‍ष", "葛\U000e0100", "我 爱 中国", "naïve", "a b"]
)
def test_joiners_and_selectors_stay_where_scripts_and_emoji_use_them(text):
    assert replace_controls(text) == spell_controls(text) == text


@pytest.mark.parametrize(
    "hidden",
    [
        *"\x00\x07\x1b\x7f\x85\x9b\xad\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e",
        *"\u2060\u2066\u2069\ufe0f\ufeff\ufff9\U000e0041\U000e0100\ud800\udfff\uffff\u3164",
    ],
)
def test_a_character_that_steers_or_hides_is_replaced_one_for_one(hidden):
    assert replace_controls(f"{hidden}a{hidden}{hidden}").startswith("\ufffda")
    assert len(replace_controls(f"a{hidden}{hidden}")) == 3
    assert "\ufffd" in replace_controls(f"a{hidden}{hidden}")


def test_replacing_twice_changes_nothing_more():
    text = replace_controls("x\ufe0f\ufe0f\u200dé\u200d\u200d爱\x1b\u200d爱")
    assert replace_controls(text) == text


def test_line_feeds_and_tabs_stay_if_a_text_may_have_lines():
    assert replace_controls("a\n\tb\r", lines=True) == "a\n\tb\ufffd"


def test_labels_spell_controls_out():
    assert spell_controls("\n\t\r\x1b\u202e") == "\\n\\t\\rU+001BU+202E"


def test_json_keeps_every_character_as_an_escape():
    text = "\x9b\u2028\u202e\U000e0041\ud800\ufe0f"
    escaped = escape_controls(f'"{text}"')
    assert escaped.isascii()
    assert json.loads(escaped) == text


def test_a_long_text_is_cut_with_an_ellipsis():
    assert cut_text("x" * 11, 10) == "x" * 9 + "…"
    assert cut_text("x" * 10, 10) == "x" * 10
