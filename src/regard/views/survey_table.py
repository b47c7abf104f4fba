"""A survey of attention heads as a sortable page, and as a table for the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from regard.text import say
from regard.views.table import Column, Table, short_number

__all__ = ["SurveyRows", "measure_label", "survey_grid", "survey_page"]

_SPREAD = "_sd"  # the suffix of a row's standard deviations
_PLACE = ("site", "kind", "head", "rows")
_NOT_SHARES = ("entropy", "effective_keys", "distance", "deviation")  # all others are 0 to 1
_IN_TERMINAL = (
    "entropy", "confidence", "distance", "on_first", "on_self", "on_previous", "on_next",
    "on_special", "on_punctuation",
)  # fmt: skip


@runtime_checkable
class SurveyRows(Protocol):
    """What is drawn of a `regard.studies.survey.table.Survey`: a row of numbers for each head."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""

    @property
    def sites(self) -> Mapping[str, Any]:
        """The sites by name."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """For each head its site, and the mean and standard deviation of each measure."""

    @property
    def examples(self) -> int:
        """The number of texts."""

    @property
    def cut(self) -> int:
        """The number of texts that were cut."""

    @property
    def gaps(self) -> Mapping[str, str]:
        """The reason for each site that could not be captured."""


def measure_label(measure: str, language: str) -> tuple[str, str]:
    """The short name of a measure, and what it measures.

    >>> from regard.views.survey_table import measure_label
    >>> measure_label("on_first", "en")
    ('first', 'weight on the first token')
    """
    return say(f"survey.measure.{measure}", language), say(f"survey.hint.{measure}", language)


def survey_page(survey: SurveyRows, model: str, language: str = "en") -> Table:
    """The page of a survey: a sortable table with a row for each head."""
    columns = [Column(say(f"survey.column.{name}", language)) for name in _PLACE]
    columns += [
        Column(*measure_label(name, language), shares=name not in _NOT_SHARES)
        for name in survey.measures
    ]
    rows = [
        [
            *(row[name] for name in _PLACE),
            *(
                None if row[name] is None else (row[name], row[name + _SPREAD])
                for name in survey.measures
            ),
        ]
        for row in survey.rows
    ]
    title = say("survey.title", language, model=model, examples=survey.examples)
    note = " ".join([say("survey.note", language), *_remarks(survey, language)])
    return Table(title, columns, rows, note, language)


def survey_grid(survey: SurveyRows, language: str = "en") -> Group:
    """The survey for the terminal: means and standard deviations, a grid for each site."""
    grids = [part for site in survey.sites for part in _site_grid(survey, site, language)]
    remarks = [Text(f"\n{remark}") for remark in _remarks(survey, language)]
    return Group(Text(say("survey.percent", language), style="dim"), *grids, *remarks)


def _remarks(survey: SurveyRows, language: str) -> Iterator[str]:
    """Sentences about texts that were cut and sites that could not be captured."""
    if survey.cut:
        yield say("survey.cut", language, cut=survey.cut)
    for site, reason in survey.gaps.items():
        yield say("survey.gap", language, site=site, reason=reason)


def _site_grid(survey: SurveyRows, site: str, language: str) -> Iterator[Text | Grid]:
    """The heading of a site, and a row of numbers for each of its heads."""
    rows = [row for row in survey.rows if row["site"] == site]
    yield Text(f"\n{site}", style="bold").append(f"  {rows[0]['kind']}", style="dim")
    measures = [name for name in _IN_TERMINAL if rows[0][name] is not None]
    grid = Grid(box=None, padding=(0, 1, 0, 0))
    grid.add_column(say("survey.column.head", language), justify="right")
    for name in measures:
        grid.add_column(measure_label(name, language)[0], justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(str(row["head"]), *(_format_cell(row, name) for name in measures))
    yield grid


def _format_cell(row: dict[str, Any], name: str) -> str:
    """The mean ± the standard deviation, in percent if the measure is a share."""
    mean, spread = row[name], row[name + _SPREAD]
    if mean is None:
        return "–"
    if name in _NOT_SHARES:
        return short_number(mean) + ("" if spread is None else f"±{spread:.1f}")
    return f"{mean:.0%}"[:-1] + ("" if spread is None else f"±{spread:.0%}"[:-1])
