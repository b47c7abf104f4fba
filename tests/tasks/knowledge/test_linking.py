"""The subjects of a question are found however their names are written."""

import pytest

from regard.tasks.knowledge.index import TermIndex
from regard.tasks.knowledge.linking import Linker
from regard.tasks.knowledge.normalise import MASK, mask_span, normalise
from regard.tasks.knowledge.terms import character_terms, terms_of

pytest.importorskip("bm25s")

NAMES = ["New York", "York", "apple (fruit)", "清华大学第一附属医院", "大学", "CSA", "art", ""]


@pytest.fixture(scope="module")
def linker():
    return Linker(NAMES, TermIndex.build(map(character_terms, NAMES)))


def first(linker, question):
    mention = linker.mentions(question)[0]
    return mention.subject, question[slice(*mention.span)]


@pytest.mark.parametrize(
    ("question", "subject", "part"),
    [
        ("how big is new  york?", "New York", "new  york"),
        ("is York old", "York", "York"),
        ("what is an Apple", "apple (fruit)", "Apple"),
        ("ｃｓａ成立于哪年", "CSA", "ｃｓａ"),
        ("清华大学附属医院在哪里", "清华大学第一附属医院", "清华大学附属医院"),
    ],
)
def test_a_name_is_found_in_any_spelling(linker, question, subject, part):
    assert first(linker, question) == (subject, part)


def test_a_name_within_another_one_is_marked(linker):
    by_name = {each.subject: each for each in linker.mentions("how big is New York")}
    assert by_name["York"].inside
    assert not by_name["New York"].inside


def test_a_name_is_no_part_of_a_latin_word(linker):
    assert all(each.subject != "art" or not each.exact for each in linker.mentions("the party"))


def test_a_question_without_a_name_has_no_candidate(linker):
    assert linker.mentions("?!") == []


def test_the_mask_takes_the_place_of_the_characters_of_a_span():
    text = normalise("《Ａ B》多高")
    assert text.text == "ab多高"
    assert mask_span("《Ａ B》多高", text.span(0, 2)) == f"《{MASK}》多高"


def test_terms_are_stems_and_characters_with_their_pairs():
    assert terms_of("What’s the 3rd?") == ["3rd"]
    assert terms_of("北京 is") == ["北", "京", "北京"]
    assert character_terms("A-b c") == ["a", "b", "c", "ab", "bc"]
