"""`Survey`: the numbers of every head over many examples, as one value; two surveys add up."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import torch

from regard.documents import check_record
from regard.errors import InputError
from regard.tracing.statistics.collect import SiteStatistics
from regard.tracing.statistics.moments import Moments
from regard.types.maps import MapKind
from regard.types.tables import data_frame

SPREAD = "_sd"  # the suffix of a column of standard deviations
COUNT = "_n"  # the suffix of a column of how many examples have the number, if not all of them do
_HEAD_COLUMNS = ("site", "kind", "head", "examples", "rows")


class HeadRow(TypedDict):
    """The columns that every row of a table has; the others are numbers of measures."""

    site: str
    kind: MapKind
    head: int
    examples: int
    rows: int


@dataclass(frozen=True, eq=False)
class Survey:
    """The mean and standard deviation of each measure for each head, over examples.

    An example's number is the mean over its rows, as in `measures.head_numbers`, and each example
    counts once, whatever its length. `cut` is the number of examples that were longer than the
    model can read; `gaps` has the sites whose attention could not be captured, with the reason.
    Surveys of the parts of a corpus add up to the survey of the whole.
    """

    measures: tuple[str, ...]
    sites: Mapping[str, SiteStatistics] = field(default_factory=dict)
    examples: int = 0
    cut: int = 0
    gaps: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: "Survey") -> "Survey":
        if self.measures != other.measures:
            raise InputError(
                "expected surveys of the same measures to merge, got "
                f"{', '.join(self.measures)} and {', '.join(other.measures)}"
            )
        sites = dict(self.sites)
        for site, theirs in other.sites.items():
            sites[site] = sites[site] + theirs if site in sites else theirs
        return Survey(
            self.measures,
            sites,
            self.examples + other.examples,
            self.cut + other.cut,
            {**self.gaps, **other.gaps},
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `rows`."""
        both = [measure + end for measure in self.measures for end in ("", SPREAD)]
        return [*_HEAD_COLUMNS, *both, *(measure + COUNT for measure in self._sparse_measures)]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each head: its site, how many examples and rows it had, means and deviations.

        None marks a number that no example has. A measure that only some examples have, as texts of
        one token have no evenness, also has a column with their number.
        """
        sparse = self._sparse_measures
        return [
            row | {name + COUNT: count for name, count in counts.items() if name in sparse}
            for site, statistics in self.sites.items()
            for row, counts in _rows_of_site(self.measures, site, statistics)
        ]

    @property
    def _sparse_measures(self) -> list[str]:
        """The measures that some head has for some examples and not for others."""
        numbers = set[int]()
        for statistics in self.sites.values():
            count = statistics.moments.count
            partly = ((count > 0) & (count < statistics.examples)).any(dim=1)
            numbers |= {*partly.nonzero()[:, 0].tolist()}
        return [self.measures[number] for number in sorted(numbers)]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with one row per head, with the columns of `rows`."""
        rows = self.rows
        return data_frame({name: [row[name] for row in rows] for name in self.columns})

    def __repr__(self) -> str:
        heads = sum(statistics.moments.mean.shape[1] for statistics in self.sites.values())
        return (
            f"<Survey of {self.examples} examples: {len(self.sites)} sites, {heads} heads, "
            f"{len(self.measures)} measures>"
        )


def _rows_of_site(
    measures: Sequence[str], site: str, statistics: SiteStatistics
) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """The row of each head, and how many examples have each of its numbers."""
    moments = (statistics.moments.means, statistics.moments.spread, statistics.moments.count)
    for head, numbers in enumerate(zip(*(part.T.tolist() for part in moments), strict=True)):
        row: dict[str, Any] = {"site": site, "kind": statistics.kind, "head": head}
        row |= {"examples": statistics.examples, "rows": statistics.rows}
        counts = {}
        for name, mean, spread, count in zip(measures, *numbers, strict=True):
            row[name], row[name + SPREAD] = _none_if_nan(mean), _none_if_nan(spread)
            counts[name] = int(count)
        yield row, counts


def _none_if_nan(number: float) -> float | None:
    """The number, or None for NaN: tables mark a missing number by an empty cell."""
    return None if math.isnan(number) else number


def from_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Survey:
    """The survey of a table's rows, up to the last digits; `cut` and `gaps` are in no row."""
    measures = tuple(name for name in columns if name + SPREAD in columns)
    for row in rows:
        check_record("a row", row, HeadRow)
    by_site: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_site.setdefault(row["site"], []).append(row)
    sites = {site: _statistics_of_site(measures, heads) for site, heads in by_site.items()}
    examples = max((statistics.examples for statistics in sites.values()), default=0)
    return Survey(measures, sites, examples)


def _statistics_of_site(
    measures: Sequence[str], heads: Sequence[Mapping[str, Any]]
) -> SiteStatistics:
    """The statistics of a site from the rows of its heads, the inverse of `_rows_of_site`."""
    numbers = [[_moments_of(head, name) for head in heads] for name in measures]
    table = torch.tensor(numbers, dtype=torch.float64).view(len(measures), len(heads), 3)
    count, mean, squares = table.unbind(dim=2)
    first = heads[0]
    return SiteStatistics(
        first["kind"], first["examples"], first["rows"], Moments(count, mean, squares)
    )


def _moments_of(row: Mapping[str, Any], name: str) -> tuple[float, float, float]:
    """The count, mean and sum of squared deviations of one measure, from the row of a head."""
    if row[name] is None:
        return 0, 0.0, 0.0
    count = row.get(name + COUNT, row["examples"])
    # the standard deviation divides the sum of squares by count - 1
    return count, row[name], (row[name + SPREAD] or 0.0) ** 2 * (count - 1)
