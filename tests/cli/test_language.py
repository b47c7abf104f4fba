import string

import pytest

import regard
from regard.attention.entry import LAWS
from regard.cli import language


def _fields(text):
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("label", sorted(language._LABELS | language._LESSON))
def test_a_label_is_there_in_both_languages_with_the_same_blanks(label):
    text = (language._LABELS | language._LESSON)[label]
    assert text.en
    assert text.zh
    assert _fields(text.en) == _fields(text.zh)


@pytest.mark.parametrize("law", LAWS)
def test_every_law_has_a_name_and_a_sentence_in_chinese(law):
    assert language.law(law, LAWS[law], "en") == (law, LAWS[law])
    assert all(not part.isascii() for part in language.law(law, LAWS[law], "zh"))


@pytest.mark.parametrize("entry", regard.catalog.values(), ids=lambda entry: entry.name)
def test_every_reason_for_breaking_a_law_is_translated(entry):
    for reason in entry.breaks.values():
        assert language.translated(reason, "en") == reason
        assert language.translated(reason, "zh") != reason


def test_what_has_no_translation_stays_as_it_is():
    assert language.translated("e = q · k", "zh") == "e = q · k"
    assert language.law("new", "a new law", "zh") == ("new", "a new law")


@pytest.mark.parametrize("family", sorted({entry.family for entry in regard.catalog.values()}))
def test_every_family_has_a_name(family):
    assert language.say(family, "en") != language.say(family, "zh")
