"""Cells of CSV files that hold text: harmless in a spreadsheet, and read back as they were."""

import csv
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["harmless_row", "long_cells", "original_text"]

# Spreadsheets run a cell that begins so as a formula; some also with the full-width signs.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_LARGEST_LIMIT = min(sys.maxsize, (1 << 31) - 1)  # csv keeps the limit in a C long


def harmless_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with an apostrophe before each text that a spreadsheet would run as a formula.

    Numbers stay as they are, negative ones too. A text of apostrophes before such a character gets
    one more, so that `original_text` always gives the text back.

    >>> harmless_row({"site": "=1+2", "head": -3})
    {'site': "'=1+2", 'head': -3}
    """
    return {name: _harmless_cell(value) for name, value in row.items()}


def _harmless_cell(value: Any) -> Any:
    """The value of one cell, with the apostrophe if it is a text that needs one."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def original_text(cell: str) -> str:
    """The text of a cell that `harmless_row` wrote.

    >>> original_text("'=1+2"), original_text("'tis")
    ('=1+2', "'tis")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


@contextmanager
def long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length within the block; its own limit is 131,072."""
    before = csv.field_size_limit(_LARGEST_LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(before)
