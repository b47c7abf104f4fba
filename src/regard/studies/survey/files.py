"""Write surveys to files and read them: tables as CSV or parquet, and JSON without any loss."""

import csv
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import torch

from regard.errors import FileError, InputError
from regard.files import atomic_file
from regard.studies.survey.cells import harmless_row, long_cells, original_text
from regard.studies.survey.table import COUNT, Survey, from_rows
from regard.tracing.statistics.collect import SiteStatistics
from regard.tracing.statistics.moments import Moments

FORMAT = "regard survey 1"
_WHOLE_NUMBERS = ("head", "examples", "rows")
_MISSING = (
    "parquet needs pyarrow, which is not installed; install it with: pip install 'regard[survey]', "
    "or write .csv"
)


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
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        raise FileError(
            f"{path} is no survey that this version can read ({error}); expected a file of "
            "save_survey"
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
    """The survey that `to_json` turned into JSON types."""
    if record["format"] != FORMAT:
        raise ValueError(f"its format is {record['format']!r}, not {FORMAT!r}")
    sites = {
        site: SiteStatistics(
            fields["kind"],
            fields["examples"],
            fields["rows"],
            Moments(*(_as_tensor(fields[name]) for name in ("count", "mean", "squares"))),
        )
        for site, fields in record["sites"].items()
    }
    measures, gaps = tuple(record["measures"]), dict(record["gaps"])
    return Survey(measures, sites, record["examples"], record["cut"], gaps)


def _as_tensor(rows: list[list[float]]) -> torch.Tensor:
    """The numbers (measure head) in double precision, as they were saved."""
    return torch.tensor(rows, dtype=torch.float64)


def _write_json(survey: Survey, path: Path) -> None:
    """Write all of a survey, with every digit."""
    # ensure_ascii also escapes halves of surrogate pairs, which no encoding has
    path.write_text(json.dumps(to_json(survey), ensure_ascii=True), encoding="utf-8")


def _read_json(path: Path) -> Survey:
    """Read what `_write_json` wrote."""
    return from_json(json.loads(path.read_text(encoding="utf-8")))


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
        raise ValueError(str(error).splitlines()[0]) from error
    return from_rows(table.to_pylist(), table.column_names)


def _import_pyarrow() -> tuple[Any, Any]:
    """The modules pyarrow and pyarrow.parquet, which are an optional dependency."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(_MISSING) from error


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
