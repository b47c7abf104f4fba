import pytest

from regard.cli.work.words import find, named, printable, split
from regard.errors import InputError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我 爱 中国", ["我", "爱", "中国"]),
        ("我\u3000爱\t中国\n", ["我", "爱", "中国"]),
        ("我爱中国", ["我", "爱", "中", "国"]),
        ("我爱NLP。", ["我", "爱", "NLP。"]),
        ("attention", ["attention"]),
        ("𠮷野家", ["𠮷", "野", "家"]),
    ],
)
def test_words_stand_between_white_space_and_chinese_without_it_is_cut_into_characters(text, words):
    assert split(text) == words


@pytest.mark.parametrize("text", ["", " \t\u3000\n"])
def test_a_text_without_words_is_refused(text):
    with pytest.raises(InputError, match="the text has no words; give some"):
        split(text)


@pytest.mark.parametrize(("query", "index"), [("爱", 1), ("3", 2), ("1", 0), ("３", 2)])
def test_a_query_is_a_word_or_a_position_from_one(query, index):
    assert find(["我", "爱", "中国", "爱"], query) == index


def test_a_number_that_is_a_word_of_the_text_is_that_word():
    assert find(["5", "4", "3", "2"], "2") == 3


@pytest.mark.parametrize("query", ["恨", "0", "4", "-1", "", "9" * 5000])
def test_a_query_that_is_not_in_the_text_is_told_the_words(query):
    with pytest.raises(InputError, match=r"is not in the text; .*: 1 我, 2 爱, 3 中国$"):
        find(["我", "爱", "中国"], query)


def test_the_words_of_a_long_text_are_not_all_listed():
    with pytest.raises(InputError, match=r"20 w20, … 300 w300$"):
        find([f"w{place}" for place in range(1, 301)], "x")


def test_a_word_that_occurs_again_carries_its_position():
    assert named(["the", "cat", "the"]) == ["the:1", "cat", "the:3"]


def test_a_word_cannot_steer_the_terminal():
    assert printable("a\x1b[31m\x9b\x7f爱👨‍👩‍👧") == "a\ufffd[31m\ufffd\ufffd爱👨‍👩‍👧"
