import csv

import pytest

from regard.studies.survey.cells import harmless_row, long_cells, original_text


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "＝1", "'=1", "''+1"]
)
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe_and_loses_it(text):
    cell = harmless_row({"site": text})["site"]
    assert cell == f"'{text}"
    assert original_text(cell) == text


@pytest.mark.parametrize("value", ["h.0", "", "'tis", "a=b", "1-2", -3, -0.5, None])
def test_other_cells_stay_as_they_are(value):
    assert harmless_row({"cell": value}) == {"cell": value}


def test_the_limit_of_the_csv_module_is_put_back():
    before = csv.field_size_limit()
    with long_cells():
        assert csv.field_size_limit() > 10_000_000
    assert csv.field_size_limit() == before
