"""A table of numbers as a page of its own: shaded by value, sortable, offline."""

import base64
import hashlib
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError, UnknownNameError
from regard.files import atomic_file
from regard.text import LANGUAGES, say
from regard.views.colours import dark, is_dim, light

MeanAndSpread = tuple[float, float | None]  # the spread is None where it is not known
Cell = str | int | float | MeanAndSpread | None

_STRONGEST_SHADE = 0.48  # of the largest number, so that letters stay easy to read
_POLICY = (
    "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif;
  margin: 1.5rem; }
h1 { font-size: 1.25rem; margin: 0; }
p { margin: .3rem 0 1rem; max-width: 60rem; opacity: .8; }
table { border-collapse: separate; border-spacing: 1px; font-variant-numeric: tabular-nums; }
thead th { position: sticky; top: 0; background: Canvas; vertical-align: bottom; }
th { padding: 0; font-weight: 600; text-align: left; }
th button { all: unset; cursor: pointer; padding: .3rem .5rem; display: block; }
th button, td { white-space: nowrap; }
th button:focus-visible { outline: 2px solid Highlight; }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
td { padding: .15rem .5rem; }
td:first-child { position: sticky; left: 0; background: Canvas; }
td.number { text-align: right; background: var(--light); color: var(--on-light); }
td small { opacity: .75; }
input { font: inherit; margin-bottom: .8rem; padding: .2rem .4rem; }
@media (prefers-color-scheme: dark) {
  td.number { background: var(--dark); color: var(--on-dark); }
}
"""
_PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p>{note}</p>
<input type="search" placeholder="{filter}" aria-label="{filter}">
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
<script>{script}</script>
</body>
</html>
"""
_SCRIPT = """
const table = document.querySelector("table"), body = table.tBodies[0];
const heads = [...table.tHead.rows[0].cells];
const value = (row, place) => row.cells[place].dataset.value;
function sort(place) {
  const head = heads[place], number = head.dataset.kind === "number";
  const falling = head.getAttribute("aria-sort") === "descending"
    || (!number && head.getAttribute("aria-sort") !== "ascending");
  const compare = (first, second) => {
    const [a, b] = [value(first, place), value(second, place)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    const order = number ? a - b : a.localeCompare(b, undefined, { numeric: true });
    return falling ? order : -order;
  };
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "ascending" : "descending");
  body.append(...[...body.rows].sort(compare));
}
heads.forEach((head, place) => head.firstChild.addEventListener("click", () => sort(place)));
document.querySelector("input").addEventListener("input", event => {
  const filter = event.target.value.toLowerCase();
  for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(filter);
});
document.body.dataset.ready = "";
"""


@dataclass(frozen=True)
class Column:
    """The title of a column, a hint that explains it, and how its numbers are shaded.

    `shares` are shaded from 0 to 1, other numbers from the least to the largest of the column;
    texts and counts are not shaded.
    """

    title: str
    hint: str = ""
    shares: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns: texts, counts, or means with their spreads; None is not known.

    >>> from regard.views.table import Column, Table
    >>> Table("heads", [Column("site"), Column("entropy")], [["h.0", (1.5, 0.25)]]).html()[:15]
    '<!doctype html>'
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    language: str = "en"

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise UnknownNameError("language", self.language, LANGUAGES)
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    f"expected {len(self.columns)} cells in each row of the table, one for each "
                    f"column, got {len(row)}"
                )

    def html(self) -> str:
        """The page, which needs no network; without scripts its rows are still readable."""
        digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
        ranges = [self._shading_range(index) for index in range(len(self.columns))]
        unknown = say("table.unknown", self.language)
        body = ["".join(map(_cell_html, row, ranges, [unknown] * len(row))) for row in self.rows]
        return _PAGE.format(
            language="zh-Hans" if self.language == "zh" else "en",
            policy=_escape(_POLICY.format(hash=digest)),
            title=_escape(self.title),
            note=_escape(self.note),
            filter=say("table.filter", self.language),
            head="".join(self._head_html(index) for index in range(len(self.columns))),
            body="\n".join(f"<tr>{cells}</tr>" for cells in body),
            style=_STYLE,
            script=_SCRIPT,
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        path = Path(path)
        with atomic_file(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8", errors="replace")
        return path

    def _head_html(self, index: int) -> str:
        """The HTML of a column's head, a button that sorts by it."""
        column = self.columns[index]
        number = any(not isinstance(row[index], str | None) for row in self.rows)
        hint = "; ".join(filter(None, (column.hint, say("table.sort", self.language))))
        return (
            f'<th scope="col" data-kind="{"number" if number else "text"}">'
            f'<button title="{_escape(hint)}">{_escape(column.title)}</button></th>'
        )

    def _shading_range(self, index: int) -> tuple[float, float]:
        """The numbers that get the faintest and the strongest shade of a column."""
        means = [mean for row in self.rows if (mean := _finite_mean(row[index])) is not None]
        if self.columns[index].shares:
            return 0.0, 1.0
        return min(means, default=0.0), max(means, default=0.0)


def _finite_mean(cell: Cell) -> float | None:
    """The number of a cell if it is a finite float, else None."""
    number = cell[0] if isinstance(cell, tuple) else cell
    return number if isinstance(number, float) and math.isfinite(number) else None


def _cell_html(cell: Cell, limits: tuple[float, float], unknown: str) -> str:
    """The HTML of one cell, shaded within the limits of its column."""
    if isinstance(cell, str):
        return f'<td data-value="{_escape(cell)}">{_escape(cell)}</td>'
    if isinstance(cell, int):
        return f'<td data-value="{cell}" style="text-align:right">{cell:,}</td>'
    mean = _finite_mean(cell)
    if mean is None:
        return f'<td title="{unknown}">–</td>'
    spread = cell[1] if isinstance(cell, tuple) else None
    beside = "" if spread is None else f" <small>±{short_number(spread)}</small>"
    attributes = f'class="number" data-value="{mean!r}" {_shade_style(mean, limits)}'
    return f"<td {attributes}>{short_number(mean)}{beside}</td>"


def _shade_style(number: float, limits: tuple[float, float]) -> str:
    """The colours of a number on light and dark pages, as CSS variables."""
    least, largest = limits
    share = (number - least) / (largest - least) if largest > least else 0.0
    variables = []
    for name, colours in (("light", light), ("dark", dark)):
        colour = colours(_STRONGEST_SHADE * min(max(share, 0.0), 1.0))
        on = "#fff" if is_dim(colour) else "#111"
        variables.append(f"--{name}:#{bytes(colour.tolist()).hex()};--on-{name}:{on}")
    return f'style="{";".join(variables)}"'


def short_number(number: float) -> str:
    """A number in a few digits.

    >>> from regard.views.table import short_number
    >>> [short_number(number) for number in (0.12345, 12.345, 1234.5, 0.0, 3e-7)]
    ['0.123', '12.3', '1234', '0', '3e-07']
    """
    if number and abs(number) < 5e-4:
        return f"{number:.0e}"
    digits = 3 if abs(number) < 1 else 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
    return f"{number:.{digits}f}" if number else "0"


def _escape(text: str) -> str:
    """A text that is safe in HTML and can be encoded as UTF-8."""
    return html.escape(text.encode("utf-8", "replace").decode())
