import pytest

from regard.types import Tokens
from regard.views.scene import TokenStream
from regard.views.scene.alignment import align_streams


def stream(*texts, words=None, special=()):
    flags = tuple(text in special for text in texts)
    return TokenStream.of(Tokens(texts, words=words, special=flags))


def spelled(first, second):
    return [
        (first.text(a0, a1), second.text(b0, b1)) for a0, a1, b0, b1 in align_streams(first, second)
    ]


def test_the_same_tokens_stand_one_by_one():
    first = stream("I", "love", "you")
    assert align_streams(first, first) == ((0, 1, 0, 1), (1, 2, 1, 2), (2, 3, 2, 3))


def test_words_in_different_pieces_stand_together():
    first = stream("un", "##kind", "word", words=(0, 0, 1))
    second = stream("unk", "##ind", "wo", "##rd", words=(0, 0, 1, 1))
    assert spelled(first, second) == [("unkind", "unkind"), ("word", "word")]


def test_words_that_are_cut_differently_are_cut_where_both_are():
    first, second = stream("New", "York", "is", "big"), stream("New York", "is", "big")
    assert spelled(first, second) == [("New York", "New York"), ("is", "is"), ("big", "big")]


def test_case_and_the_names_of_special_tokens_do_not_matter():
    first, second = stream("[CLS]", "Hi", special=["[CLS]"]), stream("<s>", "hi", special=["<s>"])
    assert spelled(first, second) == [("[CLS]", "<s>"), ("Hi", "hi")]


def test_what_only_one_text_has_stands_alone():
    first, second = stream("a", "b", "c"), stream("a", "c")
    assert align_streams(first, second) == ((0, 1, 0, 1), (1, 2, 0, 0), (2, 3, 1, 2))


@pytest.mark.parametrize("texts", [("我", "爱", "中国"), ("x",), ("a", "b", "c", "d", "e")])
def test_every_token_is_in_one_group(texts):
    first, second = stream(*texts), stream("".join(texts), "!")
    found = align_streams(first, second)
    assert sum(a1 - a0 for a0, a1, _, _ in found) == len(first)
    assert sum(b1 - b0 for _, _, b0, b1 in found) == len(second)
