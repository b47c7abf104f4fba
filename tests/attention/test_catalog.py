import re

import pytest

import regard
from regard.attention import catalog
from regard.errors import InputError, UnknownNameError

NAMES = """soft hard global local-m local-p additive bahdanau multiplicative luong-dot luong-general
scaled-dot cosine multi-head grouped-query multi-query sparsemax entmax adaptive-entmax top-k
straight-through alibi t5-bias rotary causal sliding-window general dot single-head copy
pointer coverage"""


def test_every_mechanism_that_people_ask_for_is_there():
    assert all(catalog[name] for name in NAMES.split())


def test_an_alias_finds_its_entry():
    assert catalog["bahdanau"] is catalog["additive"]
    assert len(catalog) == len(list(catalog)) == len({*catalog})


@pytest.mark.parametrize("name", list(catalog))
def test_every_entry_tells_what_there_is_to_know(name):
    entry = catalog[name]
    assert all((entry.formula, entry.paper, entry.time, entry.memory, entry.summary))
    assert 2010 <= entry.year <= 2030
    assert any("一" <= letter <= "鿿" for letter in entry.summary.zh)


@pytest.mark.parametrize("name", list(catalog))
def test_a_text_with_words_is_translated(name):
    """Formulas and costs of symbols alone may stay as they are; words of English may not."""
    entry = catalog[name]
    for text in (entry.formula, entry.time, entry.memory, *entry.breaks.values()):
        words = re.findall(r"\b(?:the|of|by|for|an|over|all|reads|sees|is)\b", text)
        assert not words or any("一" <= letter <= "鿿" for letter in text.zh), text


def test_names_and_aliases_are_each_one_entry():
    names = [name for entry in catalog.values() for name in (entry.name, *entry.aliases)]
    assert len(names) == len({*names})


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="no mechanism 'adittive'; did you mean 'additive'"):
        catalog["adittive"]
    with pytest.raises(UnknownNameError, match=r"no mechanism 'qqq'; Known: dot, scaled-dot"):
        catalog["qqq"]


def test_sizes_of_zero_are_refused():
    with pytest.raises(InputError, match="multi-head expected widths and heads of at least one"):
        catalog["multi-head"].build(8, heads=0)


def test_it_prints_what_it_holds():
    assert repr(regard.catalog).startswith(
        f"<Catalog of {len(catalog)} mechanisms: dot, scaled-dot"
    )
