import pytest
from rich.console import Console

from regard.measures.heads import HeadNumbers
from regard.studies.survey.run import survey
from regard.studies.survey.table import Survey
from regard.views.survey_table import measure_label, survey_grid, survey_page
from studies.survey.models import PAIRS, TEXTS, reader, tokenizer, translator


@pytest.fixture(scope="module")
def found():
    return survey(translator(), tokenizer(), PAIRS)


def shown(found, language="en"):
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        console.print(survey_grid(found, language))
    return capture.get()


def test_the_terminal_shows_a_grid_for_each_site(found):
    text = shown(found)
    assert all(f"\n{site}  {each.kind}\n" in text for site, each in found.sites.items())
    assert text.count("entropy largest") == len(found.sites)
    assert max(map(len, text.splitlines())) <= 80


def test_a_cross_map_has_no_columns_of_places(found):
    cross = shown(found).split("cross\n")[1].splitlines()[0]
    assert cross.split() == ["head", "entropy", "largest", "first", "special", "marks"]


def test_one_text_has_no_spread():
    assert "±" not in shown(survey(reader(), tokenizer(), TEXTS[:1])).split("\n", 1)[1]


def test_what_was_cut_and_what_was_not_seen_is_told(found):
    odd = Survey(found.measures, found.sites, 4, 3, {"odd": "it is scripted"})
    for said in (shown(odd), survey_page(odd, "m", "en").note):
        assert "3 texts were longer than the model reads" in " ".join(said.split())
        assert "not captured: odd: it is scripted" in " ".join(said.split())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_measure_has_a_name_and_says_what_it_is(found, language):
    words = [word for name in found.measures for word in measure_label(name, language)]
    assert all(words)
    assert len({*words}) == 2 * len(found.measures)
    assert {*found.measures} == {*HeadNumbers.__dataclass_fields__} - {"rows"}


def test_the_page_has_a_row_for_each_head(found):
    table = survey_page(found, "<model>", "zh")
    assert (len(table.rows), table.title) == (len(found.rows), "<model> 的注意力头，共 4 条文本")
    assert table.rows[0][:3] == [*found.rows[0].values()][:3]
    assert [each.title for each in table.columns][4] == "熵"
