"""A check: what it looks for, the limit, and what is said when something is found."""

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
    """A number on the wrong side of its limit, and where.

    `head` is the place of a head in its map. `held` is in how many of `among` traces it holds;
    None where that is not asked. `words` are said in every language alike, `rows` and `columns`
    are the tokens that the picture shows. `limit` is the hit's own where it is not the check's.
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
    """One thing that can be wrong with attention, or deserves to be known of it.

    `find` looks through the evidence for what crosses the limit. The sayings are templates of
    `str.format` with the fields of a hit; so is `call`, code that tries a remedy where `model`,
    `processor` and `texts` are at hand. `cost` is what it takes: the traces alone, or running the
    model again.
    """

    name: str
    severity: Severity
    limit: Limit
    find: Callable[[Evidence, Limit], Iterable[Hit]]
    said: Mapping[str, FindingText]
    view: Picture | None = None
    call: str | None = None
    cost: Cost = "traces"

    def findings(self, evidence: Evidence) -> Iterator[Finding]:
        """What it finds, said in every language."""
        for hit in self.find(evidence, self.limit):
            yield self._finding(hit, evidence)

    def _finding(self, hit: Hit, evidence: Evidence) -> Finding:
        limit = self.limit.value if hit.limit is None else hit.limit
        fields = dict(hit.words) | {"value": hit.value, "limit": limit, "site": hit.site}
        fields["example"] = hit.example
        if hit.site is not None and hit.head is not None:
            fields["head"] = evidence.site(hit.site).number(hit.head)
        said = {
            language: _fill_templates(
                saying, fields | _phrases(hit, len(evidence.traces), language)
            )
            for language, saying in self.said.items()
        }
        drawing = None
        if self.view is not None:
            drawing = FindingView(self.view, hit.site, hit.head, hit.rows, hit.columns)
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
            drawing,
            None if self.call is None else self.call.format(**fields),
            numbers,
        )


class Checks(Mapping[str, Check]):
    """Checks by name, in the order in which findings of one severity are told.

    >>> from regard.diagnosis import CHECKS
    >>> CHECKS["sink"].severity
    'observation'
    """

    def __init__(self, checks: Iterable[Check]) -> None:
        self._checks = {each.name: each for each in checks}

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
    """A check of ours, with the limit and the sayings that the tables have for it."""
    return Check(name, severity, LIMITS[limit or name], find, sayings(name), view, call, cost)


def sayings(check: str) -> Mapping[str, FindingText]:
    """What is said of a check in each language, as templates of `regard.text`."""
    return {language: _saying(check, language) for language in LANGUAGES}


def _saying(check: str, language: str) -> FindingText:
    others = sentences("diagnosis")[language]
    return FindingText(
        template(f"diagnosis.{check}.sentence", language),
        others.get(f"diagnosis.{check}.meaning", ""),
        others.get(f"diagnosis.{check}.remedy", ""),
    )


def _fill_templates(saying: FindingText, fields: Mapping[str, Any]) -> FindingText:
    parts = (saying.sentence, saying.meaning, saying.remedy)
    sentence, meaning, remedy = (each.format(**fields) for each in parts)
    return replace(saying, sentence=sentence, meaning=meaning, remedy=remedy)


def _phrases(hit: Hit, traces: int, language: str) -> dict[str, str]:
    """Which text it is of, and in how many it holds, where there are several."""
    text, often = "", ""
    if traces > 1:
        text = say("diagnosis.text", language, number=hit.example + 1)
    if hit.held and hit.among > 1:
        amount = "some" if hit.held < hit.among else "both" if hit.among == 2 else "all"
        often = say(f"diagnosis.often.{amount}", language, held=hit.held, among=hit.among)
    return {"text": text, "often": often}
