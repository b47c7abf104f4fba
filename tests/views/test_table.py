import re
from html.parser import HTMLParser

import pytest

from regard.errors import FileError, InputError, UnknownNameError
from regard.views.table import Column, Table, short_number

COLUMNS = [
    Column("site"),
    Column("head"),
    Column("entropy", "in nats"),
    Column("self", shares=True),
]
ROWS = [["h.0", 0, (1.5, 0.25), (0.5, None)], ["h.1", 1, (0.5, 0.0), None]]
HOSTILE = "</script><script>alert(1)</script>\"'<b>"


class StoredMaps(HTMLParser):
    """The tags of a page, their attributes, and the texts of its cells."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.cells, self._cell = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._cell = tag in ("td", "small")
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        self._cell = self._cell and tag != "td"

    def handle_data(self, data):
        if self._cell:
            self.cells[-1] += data


def page(rows=ROWS, **settings):
    return Table("heads", COLUMNS, rows, **settings).html()


def test_every_cell_is_there_without_the_script():
    found = StoredMaps(page())
    assert found.cells == ["h.0", "0", "1.50 ±0.250", "0.500", "h.1", "1", "0.500 ±0", "–"]


def test_cells_keep_their_numbers_to_be_sorted_by():
    cells = [each for tag, each in StoredMaps(page()).tags if tag == "td"]
    assert [each.get("data-value") for each in cells] == [
        "h.0", "0", "1.5", "0.5", "h.1", "1", "0.5", None,
    ]  # fmt: skip


def test_shares_are_shaded_from_nothing_to_one_and_others_within_their_column():
    shades = [
        each["style"] for tag, each in StoredMaps(page()).tags if each.get("class") == "number"
    ]
    entropy, share, least = shades
    assert len({*shades}) == 3
    assert page([["h.0", 0, (0.5, None), (0.0, None)]]).count(least) == 2
    assert share != entropy


def test_nothing_of_a_table_can_become_code():
    rows = [[HOSTILE, 0, (1.0, None), None]]
    found = Table(HOSTILE, [*map(Column, [HOSTILE] * 4)], rows, HOSTILE).html()
    assert "<b>" not in found
    assert found.count("<script>") == found.count("</script>") == 1
    assert StoredMaps(found).cells[0] == HOSTILE


def test_a_page_asks_nobody_for_anything():
    found = page()
    assert not re.search(r"https?:|src=|@import|url\(", found)
    assert "default-src &#x27;none&#x27;" in found


def test_words_are_in_the_language_of_the_table():
    assert "筛选行" in page(language="zh")
    assert 'lang="zh-Hans"' in page(language="zh")
    with pytest.raises(UnknownNameError, match="no language 'fr'"):
        page(language="fr")


def test_a_row_has_a_cell_for_each_column():
    with pytest.raises(InputError, match=r"expected 4 cells in each row of the table, .* got 1"):
        page([["h.0"]])


def test_numbers_that_are_not_finite_are_unknown():
    assert StoredMaps(page([["h.0", 0, float("nan"), (float("inf"), None)]])).cells[2:] == [
        "–",
        "–",
    ]


def test_a_half_of_a_character_does_not_stop_the_writing(tmp_path):
    path = Table("\ud83d", [Column("a")], [["\ud83d"]]).save(tmp_path / "t.html")
    assert "?" in path.read_text(encoding="utf-8")


def test_what_cannot_be_written_is_told(tmp_path):
    with pytest.raises(FileError, match=r"cannot write .*gone.*: No such file"):
        Table("t", [Column("a")], []).save(tmp_path / "gone" / "t.html")


@pytest.mark.parametrize(
    ("number", "text"), [(0.5, "0.500"), (99.94, "99.9"), (-2.0, "-2.00"), (4e-4, "4e-04")]
)
def test_numbers_have_a_few_digits(number, text):
    assert short_number(number) == text
