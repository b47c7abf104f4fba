"""A finding: one number about a model's attention that deserves a sentence, as a value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from regard.errors import InputError, UnknownNameError

Severity = Literal["observation", "warning", "bug"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Drawing:
    """The picture that shows a finding, as data: which view of which site, head and tokens."""

    view: Literal["heatmap", "highlight", "flow", "heads"]
    site: str | None = None
    head: int | None = None
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Saying:
    """What is said of a finding in one language: the fact, what it usually means, what to do."""

    sentence: str
    meaning: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Finding:
    """What a check found: `value` on the wrong side of `limit`, at a site and head if it has one.

    `example` is the number of the trace that shows it best. `call` is code that tries a remedy at
    once, where there is one. An observation is common in healthy models, never an alarm.

    >>> from regard.types.finding import Finding, Saying
    >>> said = {"en": Saying("Head 3 looks at the first token (91%).")}
    >>> Finding("sink", "observation", 0.91, 0.5, said, site="h.2", head=3).sentence()
    'Head 3 looks at the first token (91%).'
    """

    check: str
    severity: Severity
    value: float
    limit: float
    said: Mapping[str, Saying]
    site: str | None = None
    head: int | None = None
    example: int = 0
    drawing: Drawing | None = None
    call: str | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers and words that the sentence is made of, as JSON types."""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise UnknownNameError("severity", self.severity, SEVERITIES)
        if not self.said:
            raise InputError(f"the finding {self.check!r} expected a sentence, got none")

    def sentence(self, language: str = "en") -> str:
        """The finding in one sentence."""
        return self.saying(language).sentence

    def saying(self, language: str = "en") -> Saying:
        """All that is said of it in a language."""
        if language not in self.said:
            raise UnknownNameError("language", language, self.said)
        return self.said[language]

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON types."""
        return asdict(self) | {"said": {name: asdict(each) for name, each in self.said.items()}}

    def __str__(self) -> str:
        return f"{self.severity}: {next(iter(self.said.values())).sentence}"
