"""A finding: one number about a model's attention that deserves a sentence, as a value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from regard.errors import InputError, UnknownNameError

Severity = Literal["observation", "warning", "bug"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class FindingView:
    """The picture that shows a finding, as data: a kind of view, and what it marks.

    `kind` is the name of a registered view, such as "heatmap"; the views package refuses a name
    that it does not know when it draws the picture. `rows` and `columns` are the tokens to mark,
    numbered within the map of `site`.
    """

    kind: str
    site: str | None = None
    head: int | None = None
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class FindingText:
    """A finding in one language: the fact in a sentence, what it usually means, what to do."""

    sentence: str
    meaning: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Finding:
    """What a check found: `value` on the wrong side of `limit`, at a site and head if it has one.

    `texts` holds the finding in each language. `example` is the number of the trace that shows it
    best, and `view` the picture of that trace to open. `remedy_code` is Python code that tries a
    remedy at once, where there is one. The severity "observation" is for what is common in
    healthy models and needs no action.

    >>> from regard.types.finding import Finding, FindingText
    >>> texts = {"en": FindingText("Head 3 looks at the first token (91%).")}
    >>> Finding("sink", "observation", 0.91, 0.5, texts, site="h.2", head=3).sentence()
    'Head 3 looks at the first token (91%).'
    """

    check: str
    severity: Severity
    value: float
    limit: float
    texts: Mapping[str, FindingText]
    site: str | None = None
    head: int | None = None
    example: int = 0
    view: FindingView | None = None
    remedy_code: str | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers and words that the sentence is made of, as JSON types."""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise UnknownNameError("severity", self.severity, SEVERITIES)
        if not self.texts:
            raise InputError(f"the finding {self.check!r} expected a sentence, got none")

    def sentence(self, language: str = "en") -> str:
        """The finding in one sentence."""
        return self.text(language).sentence

    def text(self, language: str = "en") -> FindingText:
        """The sentence, its meaning and the remedy in one language."""
        if language not in self.texts:
            raise UnknownNameError("language", language, self.texts)
        return self.texts[language]

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON types."""
        return asdict(self) | {"texts": {name: asdict(text) for name, text in self.texts.items()}}

    def __str__(self) -> str:
        return f"{self.severity}: {next(iter(self.texts.values())).sentence}"
