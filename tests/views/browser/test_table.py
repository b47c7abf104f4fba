"""A table in a real browser: it sorts, it filters, and nothing goes wrong on the way."""

import pytest

from regard.views.table import Column, Table

ROWS = [["h.10", (1.5, 0.25)], ["h.2", (0.5, None)], ["h.9", None], ["h.1", (-3.0, 0.5)]]


@pytest.fixture
def opened(usual_page, tmp_path):
    wrong = []
    listeners = {
        "console": lambda said: wrong.append(said.text),
        "pageerror": lambda error: wrong.append(str(error)),
    }
    for name, listener in listeners.items():
        usual_page.on(name, listener)
    table = Table("heads", [Column("site"), Column("entropy")], ROWS)
    usual_page.goto(table.save(tmp_path / "table.html").as_uri())
    usual_page.wait_for_selector("body[data-ready]")
    yield usual_page
    for name, listener in listeners.items():
        usual_page.remove_listener(name, listener)
    assert wrong == []


def sites(page):
    rows = page.locator("tbody tr:visible td:first-child")
    return rows.all_inner_texts()


def test_a_click_sorts_from_the_largest_and_another_from_the_least(opened):
    head = opened.locator("th button").nth(1)
    head.click()
    assert sites(opened) == ["h.10", "h.2", "h.1", "h.9"]
    head.click()
    assert sites(opened) == ["h.1", "h.2", "h.10", "h.9"]
    assert opened.locator("th").nth(1).get_attribute("aria-sort") == "ascending"


def test_names_are_sorted_by_their_numbers(opened):
    opened.locator("th button").first.click()
    assert sites(opened) == ["h.1", "h.2", "h.9", "h.10"]


def test_rows_are_filtered_by_what_is_typed(opened):
    opened.locator("input").fill("H.1")
    assert sites(opened) == ["h.10", "h.1"]
    opened.locator("input").fill("")
    assert len(sites(opened)) == len(ROWS)
