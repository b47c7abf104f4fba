import sys
from types import SimpleNamespace

import pytest
import torch

from regard.errors import InputError
from regard.studies.survey.table import Survey, from_rows
from regard.tracing.statistics.collect import SiteStatistics
from regard.tracing.statistics.moments import Moments

MEASURES, HEADS = ("entropy", "evenness", "on_self"), 5


def values(examples=7):
    """Numbers of examples: the first has no evenness, and on_self is not known."""
    found = torch.rand(examples, len(MEASURES), HEADS).double()
    found[0, 1], found[:, 2] = torch.nan, torch.nan
    return found


def survey(numbers=None, sites=("h.0", "h.1")):
    numbers = values() if numbers is None else numbers
    count = len(numbers)
    found = {
        site: SiteStatistics("encoder", count, 3 * count, Moments.of(numbers + place))
        for place, site in enumerate(sites)
    }
    return Survey(MEASURES, found, count, 2, {"odd": "it is scripted"})


def same(found, whole, relative_error=1e-12, absolute_error=1e-12):
    """The same rows, up to the last digits."""
    for row, expected in zip(found.rows, whole.rows, strict=True):
        for name, value in expected.items():
            number = isinstance(value, float)
            if number:
                value = pytest.approx(value, rel=relative_error, abs=absolute_error)
            assert row[name] == value, name


def test_there_is_a_row_for_each_head_of_each_site():
    found = survey().rows
    assert [(row["site"], row["head"]) for row in found][:2] == [("h.0", 0), ("h.0", 1)]
    assert (len(found), {*found[0]}) == (2 * HEADS, {*survey().columns})


def test_a_row_has_means_and_spreads_and_what_is_unknown_is_none():
    numbers = values()
    row = survey(numbers).rows[3]
    assert row["entropy"] == pytest.approx(numbers[:, 0, 3].mean().item())
    assert row["entropy_sd"] == pytest.approx(numbers[:, 0, 3].std().item())
    assert (row["on_self"], row["on_self_sd"]) == (None, None)
    assert (row["examples"], row["rows"]) == (7, 21)


def test_a_measure_that_some_examples_lack_tells_how_many_have_it():
    assert survey().columns[-1] == "evenness_n"
    assert {row["evenness_n"] for row in survey().rows} == {6}
    assert "evenness_n" not in survey(values()[1:]).columns


def test_surveys_of_parts_add_up_to_that_of_the_whole():
    numbers = values()
    found, whole = survey(numbers[:3]) + survey(numbers[3:]), survey(numbers)
    assert (found.examples, found.cut) == (7, 4)
    same(found, whole)


def test_a_site_that_only_one_part_has_seen_is_kept():
    found = survey(sites=("h.0",)) + survey(sites=("h.2",))
    assert list(found.sites) == ["h.0", "h.2"]


def test_surveys_of_other_measures_do_not_merge():
    with pytest.raises(InputError, match="same measures to merge, got entropy, evenness, on_self"):
        survey() + Survey(("entropy",))


def test_rows_give_the_survey_back():
    whole = survey()
    found = from_rows(whole.rows, whole.columns)
    assert (found.measures, found.examples) == (MEASURES, 7)
    same(found, whole)


def test_a_survey_says_what_it_is():
    assert repr(survey()) == "<Survey of 7 examples: 2 sites, 10 heads, 3 measures>"


def test_the_table_has_a_column_for_each_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    found = survey()
    table = found.to_pandas()
    assert list(table) == found.columns
    assert table["head"] == [row["head"] for row in found.rows]
