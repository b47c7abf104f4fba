import pytest

import regard
from regard.attention.entry import LAWS
from regard.cli.printing.catalog import in_language
from regard.text import say


@pytest.mark.parametrize("law", LAWS)
def test_every_law_has_a_name_and_a_sentence_in_chinese(law):
    assert (in_language(law, "en"), in_language(LAWS[law], "en")) == (law, LAWS[law])
    assert all(not in_language(part, "zh").isascii() for part in (law, LAWS[law]))


@pytest.mark.parametrize("entry", regard.catalog.values(), ids=lambda entry: entry.name)
def test_every_reason_for_breaking_a_law_is_translated(entry):
    for reason in entry.breaks.values():
        assert in_language(reason, "en") == reason
        assert in_language(reason, "zh") != reason


def test_what_has_no_translation_stays_as_it_is():
    assert in_language("e = q · k", "zh") == "e = q · k"


@pytest.mark.parametrize("family", sorted({entry.family for entry in regard.catalog.values()}))
def test_every_family_has_a_name(family):
    key = f"mechanisms.family.{family}"
    assert say(key, "en") != say(key, "zh")
