"""Write surveys to files and read them: tables as CSV or parquet, and JSON without any loss."""

import csv
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch

from regard.documents import AnyFloat, check_record, quote_value, read_json
from regard.errors import FileError, InputError, first_line
from regard.files import atomic_file
from regard.studies.survey.cells import harmless_row, long_cells, original_text
from regard.studies.survey.table import COUNT, Survey, from_rows
from regard.tracing.statistics.collect import SiteStatistics
from regard.tracing.statistics.moments import Moments
from regard.types.maps import MapKind

FORMAT = "regard survey 1"
_WHOLE_NUMBERS = ("head", "examples", "rows")
_MISSING = (
    "parquet needs pyarrow, which is not installed; install it with: pip install 'regard[survey]', "
    "or write .csv"
)


# What a file that is no survey may raise while it is read: of its JSON, CSV or parquet, of a
# missing or mistyped value, of numbers that no tensor holds.
_READING_ERRORS = (
    FileError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError,
    csv.Error,
)  # fmt: skip


class _MissingPackageError(InputError):
    """A survey that could be read if an optional package was installed."""


class SiteRecord(TypedDict):
    """The statistics of a site in JSON; the numbers have the axes (measure head)."""

    kind: MapKind
    examples: int
    rows: int
    count: list[list[float]]
    mean: list[list[AnyFloat]]
    squares: list[list[AnyFloat]]


class SurveyRecord(TypedDict):
    """A survey in JSON."""

    format: str
    measures: list[str]
    sites: dict[str, SiteRecord]
    examples: int
    cut: int
    gaps: dict[str, str]


def save_survey(survey: Survey, path: str | Path) -> Path:
    """Write a survey as .csv, .parquet or .json, whole or not at all, and return the path.

    A table has a row for each head. Only JSON keeps what belongs to no head: the number of examples
    that were cut, and the gaps. In CSV a text that a spreadsheet would run as a formula, one that
    begins with = + - @, a tab or a line end, has an apostrophe before it; `load_survey` removes it.
    """
    path = Path(path)
    write = _functions_for(path)[0]
    with atomic_file(path) as temporary:
        write(survey, temporary)
    return path


def load_survey(path: str | Path) -> Survey:
    """Read a survey from a file that `save_survey` wrote."""
    path = Path(path)
    read = _functions_for(path)[1]
    if not path.is_file():
        raise FileError(f"no survey {str(path)!r}; name a file that is there")
    try:
        return read(path)
    except _MissingPackageError:
        raise
    except _READING_ERRORS as error:
        raise FileError(
            f"{path} is no survey that this version can read ({first_line(error)}); expected a "
            "file of save_survey"
        ) from error


def to_json(survey: Survey) -> dict[str, Any]:
    """The survey as JSON types, exactly."""
    sites = {
        site: {
            "kind": statistics.kind,
            "examples": statistics.examples,
            "rows": statistics.rows,
            **{name: part.tolist() for name, part in vars(statistics.moments).items()},
        }
        for site, statistics in survey.sites.items()
    }
    totals = {name: part for name, part in vars(survey).items() if name != "sites"}
    return {"format": FORMAT, **totals, "sites": sites}


def from_json(record: Mapping[str, Any]) -> Survey:
    """The survey that `to_json` turned into JSON types; an InputError if it is not whole."""
    if record.get("format", FORMAT) != FORMAT:
        raise InputError(f"its format is {quote_value(record['format'])}, not {FORMAT!r}")
    check_record("the survey", record, SurveyRecord)
    measures, gaps = tuple(record["measures"]), dict(record["gaps"])
    sites = {
        site: _site_statistics(site, fields, len(measures))
        for site, fields in record["sites"].items()
    }
    return Survey(measures, sites, record["examples"], record["cut"], gaps)


def _site_statistics(site: str, fields: SiteRecord, measures: int) -> SiteStatistics:
    """The statistics of a site; an InputError unless all tables have one size."""
    tables = [fields["count"], fields["mean"], fields["squares"]]
    heads = len(tables[0][0]) if tables[0] else 0
    for table in tables:
        if [len(row) for row in table] != [heads] * measures:
            raise InputError(
                f"the site {site!r} expected tables of {measures} measures and {heads} heads"
            )
    numbers = (torch.tensor(table, dtype=torch.float64).view(measures, heads) for table in tables)
    return SiteStatistics(fields["kind"], fields["examples"], fields["rows"], Moments(*numbers))


def _write_json(survey: Survey, path: Path) -> None:
    """Write all of a survey, with every digit."""
    # ensure_ascii also escapes halves of surrogate pairs, which no encoding has
    path.write_text(json.dumps(to_json(survey), ensure_ascii=True), encoding="utf-8")


def _read_json(path: Path) -> Survey:
    """Read what `_write_json` wrote."""
    return from_json(read_json(path))


def _write_csv(survey: Survey, path: Path) -> None:
    """Write the rows of a survey as CSV; a number that no example has is an empty cell."""
    # before Python 3.13 the csv module does not quote a cell because of a carriage return
    returns = any("\r" in site for site in survey.sites)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        table = csv.DictWriter(file, survey.columns, lineterminator="\n", quoting=quoting)
        table.writeheader()
        table.writerows(map(harmless_row, survey.rows))


def _read_csv(path: Path) -> Survey:
    """Read what `_write_csv` wrote."""
    with path.open(encoding="utf-8", errors="surrogatepass", newline="") as file, long_cells():
        table = csv.DictReader(file)
        rows = [{name: _parse_cell(name, text) for name, text in row.items()} for row in table]
        return from_rows(rows, table.fieldnames or ())


def _parse_cell(name: str, text: str) -> Any:
    """The value of a cell: text, whole number or float by its column; None if it is empty."""
    if name in ("site", "kind"):
        return original_text(text)
    if not text:
        return None
    return int(text) if name in _WHOLE_NUMBERS or name.endswith(COUNT) else float(text)


def _write_parquet(survey: Survey, path: Path) -> None:
    """Write the rows of a survey as parquet."""
    try:
        "".join(survey.sites).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "a site's name holds half of a surrogate pair, which parquet cannot store; write .json"
        ) from error
    rows = survey.rows
    columns = {name: [row[name] for row in rows] for name in survey.columns}
    arrow, parquet = _import_pyarrow()
    parquet.write_table(arrow.table(columns), path)


def _read_parquet(path: Path) -> Survey:
    """Read what `_write_parquet` wrote; a ValueError if the file is not parquet."""
    arrow, parquet = _import_pyarrow()
    try:
        table = parquet.read_table(path)
    except arrow.ArrowException as error:
        raise ValueError(first_line(error)) from error
    return from_rows(table.to_pylist(), table.column_names)


def _import_pyarrow() -> tuple[Any, Any]:
    """The modules pyarrow and pyarrow.parquet, which are an optional dependency."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise _MissingPackageError(_MISSING) from error


_WriteAndRead = tuple[Callable[[Survey, Path], None], Callable[[Path], Survey]]
_FORMATS: dict[str, _WriteAndRead] = {
    ".csv": (_write_csv, _read_csv),
    ".parquet": (_write_parquet, _read_parquet),
    ".json": (_write_json, _read_json),
}
SUFFIXES = tuple(_FORMATS)


def _functions_for(path: Path) -> _WriteAndRead:
    """The functions that write and read the format that the name of a file ends with."""
    if path.suffix not in _FORMATS:
        raise InputError(
            f"expected the name of a survey to end with {', '.join(_FORMATS)}, got {str(path)!r}"
        )
    return _FORMATS[path.suffix]
