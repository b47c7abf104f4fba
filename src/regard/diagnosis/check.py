"""`Check` and `Hit`: what a check looks for, its limit, and the sentences of its findings.

A check's `find` function yields a `Hit` for each number beyond the limit; `Check.findings` fills
the hit into the sentence templates of each language and yields a `Finding`. `entry` and
`description` build the checks of this package from the tables of limits and sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import LIMITS, Limit
from regard.errors import UnknownNameError
from regard.text import LANGUAGES, say, sentences, template
from regard.types.finding import Finding, FindingText, FindingView, Severity

Picture = Literal["heatmap", "highlight", "flow", "heads"]
Cost = Literal["traces", "model"]


@dataclass(frozen=True)
class Hit:
    """A number beyond its limit, and where in the traces it was measured.

    `head` is the index of the head in its map, which may differ from its number in the model.
    `example` is the index of the trace that shows it best. The limit is crossed in `held` of the
    `among` traces that were measured; `held` is None if that was not counted. `words` are further
    fields of the sentence templates, the same in every language. `rows` and `columns` are the
    tokens that the picture marks. `limit` replaces the check's limit in this hit, if it is set.
    """

    value: float
    site: str | None = None
    head: int | None = None
    example: int = 0
    held: int | None = None
    among: int = 1
    words: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    limit: float | None = None


@dataclass(frozen=True)
class Check:
    """A search for one fault or one notable pattern of attention.

    `find` yields a hit for each number beyond the limit. `said` has the sentences by language, as
    templates for `str.format` with the fields of a hit. `call` is such a template too: Python code
    that tries a remedy, given `model`, `processor` and `texts`. `cost` is "traces" if the traces
    are enough, "model" if the model is run again. `describes` marks a check that describes healthy
    attention: that it has no findings is no news, so reports do not list it among passed checks.
    """

    name: str
    severity: Severity
    limit: Limit
    find: Callable[[Evidence, Limit], Iterable[Hit]]
    said: Mapping[str, FindingText]
    view: Picture | None = None
    call: str | None = None
    cost: Cost = "traces"
    describes: bool = field(default=False, kw_only=True)

    def findings(self, evidence: Evidence) -> Iterator[Finding]:
        """The findings in the evidence, with their sentences in every language."""
        for hit in self.find(evidence, self.limit):
            yield self._finding(hit, evidence)

    def _finding(self, hit: Hit, evidence: Evidence) -> Finding:
        """The finding of a hit: its sentences, picture, remedy code and numbers."""
        limit = self.limit.value if hit.limit is None else hit.limit
        fields = dict(hit.words) | {"value": hit.value, "limit": limit, "site": hit.site}
        fields["example"] = hit.example
        if hit.site is not None and hit.head is not None:
            fields["head"] = evidence.site(hit.site).number(hit.head)
        said = {
            language: _fill_templates(
                templates, fields | _phrases(hit, len(evidence.traces), language)
            )
            for language, templates in self.said.items()
        }
        view = None
        if self.view is not None:
            view = FindingView(self.view, hit.site, hit.head, hit.rows, hit.columns)
        numbers = dict(hit.words)
        if hit.held is not None:
            numbers |= {"held": hit.held, "among": hit.among}
        return Finding(
            self.name,
            self.severity,
            hit.value,
            limit,
            said,
            hit.site,
            hit.head,
            hit.example,
            view,
            None if self.call is None else self.call.format(**fields),
            numbers,
        )


class Checks(Mapping[str, Check]):
    """Checks by name, in the order in which findings of one severity are listed.

    >>> from regard.diagnosis import CHECKS
    >>> CHECKS["sink"].severity
    'observation'
    """

    def __init__(self, checks: Iterable[Check]) -> None:
        self._checks = {check.name: check for check in checks}

    def __getitem__(self, name: str) -> Check:
        if name not in self._checks:
            raise UnknownNameError("check", name, self._checks)
        return self._checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._checks)

    def __len__(self) -> int:
        return len(self._checks)

    def __repr__(self) -> str:
        return f"<{len(self)} checks: {', '.join(self)}>"


def entry(
    name: str,
    severity: Severity,
    find: Callable[[Evidence, Limit], Iterable[Hit]],
    view: Picture | None = None,
    call: str | None = None,
    *,
    cost: Cost = "traces",
    limit: str | None = None,
) -> Check:
    """A check with the limit of `limits.py` and the sentences of `text/diagnosis.json`.

    Both are looked up by the check's name; `limit` names another entry for checks that share one.
    """
    return Check(name, severity, LIMITS[limit or name], find, sayings(name), view, call, cost)


def description(
    name: str,
    find: Callable[[Evidence, Limit], Iterable[Hit]],
    view: Picture,
    *,
    limit: str,
) -> Check:
    """An observation that describes healthy attention and never finds a fault."""
    return replace(entry(name, "observation", find, view, limit=limit), describes=True)


def sayings(check: str) -> Mapping[str, FindingText]:
    """The sentence templates of a check in each language, from `text/diagnosis.json`."""
    return {language: _templates_of(check, language) for language in LANGUAGES}


def _templates_of(check: str, language: str) -> FindingText:
    """The templates of a check in one language; its meaning and remedy may be missing."""
    optional = sentences("diagnosis")[language]
    return FindingText(
        template(f"diagnosis.{check}.sentence", language),
        optional.get(f"diagnosis.{check}.meaning", ""),
        optional.get(f"diagnosis.{check}.remedy", ""),
    )


def _fill_templates(templates: FindingText, fields: Mapping[str, Any]) -> FindingText:
    """The sentence, meaning and remedy with the fields filled in."""
    parts = (templates.sentence, templates.meaning, templates.remedy)
    sentence, meaning, remedy = (part.format(**fields) for part in parts)
    return replace(templates, sentence=sentence, meaning=meaning, remedy=remedy)


def _phrases(hit: Hit, traces: int, language: str) -> dict[str, str]:
    """The phrases "in text 2" and "in 2 of 3 texts"; empty if there is only one text."""
    text, often = "", ""
    if traces > 1:
        text = say("diagnosis.text", language, number=hit.example + 1)
    if hit.held and hit.among > 1:
        amount = "some" if hit.held < hit.among else "both" if hit.among == 2 else "all"
        often = say(f"diagnosis.often.{amount}", language, held=hit.held, among=hit.among)
    return {"text": text, "often": often}
