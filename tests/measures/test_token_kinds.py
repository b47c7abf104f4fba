import pytest

from regard.measures.token_kinds import (
    PLAIN,
    PUNCTUATION,
    SPECIAL,
    is_punctuation,
    strip_marks,
    token_kinds,
)
from regard.types import Tokens

POINTS = [".", ",", "▁.", "Ġ,", "##.", " ?", "。", "，", "、", "《", "」", "……", "——", "...", "“"]
SPELLED = ["。[1/3]", "。[3/3]", ".</w>", ",@@", "##", "@@"]
NOT = ["a", "▁the", "don't", "▁", "", " ", "+", "$", "我", "我[2/3]", "3", "<s>", "\\n", "##ing"]


@pytest.mark.parametrize("text", [*POINTS, *SPELLED])
def test_punctuation_of_any_script_is_known_below_the_marks_of_its_tokenizer(text):
    assert is_punctuation(text)


@pytest.mark.parametrize("text", NOT)
def test_words_signs_and_nothing_at_all_are_no_punctuation(text):
    assert not is_punctuation(text)


def test_what_is_special_is_no_punctuation():
    tokens = Tokens(("[SEP]", ".", "."), special=(True, True, False))
    assert token_kinds(tokens).tolist() == [SPECIAL, SPECIAL, PUNCTUATION]


def test_without_flags_nothing_is_special():
    assert token_kinds(Tokens(("</s>", "a", "。"))).tolist() == [PLAIN, PLAIN, PUNCTUATION]


def test_no_tokens_have_no_kinds():
    assert token_kinds(Tokens(())).shape == (0,)


@pytest.mark.parametrize(
    ("text", "expected"), [("▁love", "love"), ("##ing", "ing"), ("Ġyou", "you"), ("lov@@", "lov")]
)
def test_a_bare_piece_has_no_marks(text, expected):
    assert strip_marks(text) == expected
