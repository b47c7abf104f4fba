import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.cli.printing.number_tables import (
    NumberTable,
    format_number,
    table_of_first_columns,
    table_with_bars,
    tables_of_all_columns,
)


def _print(*tables, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(*tables)
    return console.file.getvalue()


def _grid(rows=3, columns=5, last=None):
    names = ["我", "中国", "internationalization"][:rows]
    headings = [f"第{place}个很长的标题" for place in range(columns)]
    return NumberTable("词", names, headings, [["-0.123"] * columns] * rows, last)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.5, "0.500"),
        (-1.2345, "-1.234"),
        (2e-5, "2e-05"),
        (0.001, "0.001"),
        (9999.0, "9999.000"),
        (-12345.0, "-1e+04"),
    ],
)
def test_a_number_is_short_and_zero_only_if_it_is_zero(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_table_is_wider_than_the_terminal(width):
    last = ("context", ["1.000"] * 5)
    tables = [
        *tables_of_all_columns(_grid(), width),
        table_of_first_columns(_grid(last=last), width)[0],
    ]
    lines = _print(*tables, table_with_bars(_grid(columns=1), [0.1, 1.0, 0.0], width), width=width)
    assert max(cell_len(line) for line in lines.splitlines()) <= width


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_blocks_show_every_number_whatever_the_width(width):
    assert _print(*tables_of_all_columns(_grid(), width), width=width).count("-0.123") == 15


def test_the_beginning_says_how_many_columns_do_not_fit():
    table, hidden = table_of_first_columns(_grid(), 40)
    assert hidden == 3
    assert _print(table, width=40).count("-0.123") == 6
    assert table_of_first_columns(_grid(), 200)[1] == 0


def test_a_bar_is_as_long_as_its_share():
    output = _print(table_with_bars(_grid(columns=1), [0.5, 1.0, 0.0], 80), width=80)
    assert [line.count("█") for line in output.splitlines()[2:]] == [20, 40, 0]


def test_bars_are_left_out_where_there_is_no_room():
    assert "█" not in _print(table_with_bars(_grid(columns=1), [0.5, 1.0, 0.0], 12), width=12)
