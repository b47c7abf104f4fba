"""Sentences that say what a picture shows and what was done to its numbers, in two languages."""

from collections.abc import Iterable
from typing import Any

from regard.text import say, sentences
from regard.types.finding import Finding, FindingText
from regard.views.scene import Scene, Site
from regard.views.state import State

# Between two sentences: Chinese ones end in a full-width stop and need no space.
JOINS = {"en": " ", "zh": ""}
Sentence = tuple[str, dict[str, Any]]  # a key of regard.text, and the values to fill in


def join_sentences(language: str | None, parts: Iterable[Sentence]) -> str:
    """Sentences of `regard.text` by key, filled in and joined as the language does."""
    return JOINS[language or "en"].join(say(key, language, **values) for key, values in parts)


def page_sentences() -> dict[str, dict[str, str]]:
    """The sentences that a page carries with it, by language and key."""
    return sentences("page", "views", "findings")


def percent(weight: float) -> str:
    """A weight as it is shown: no digit more than its code can hold.

    >>> from regard.views.captions import percent
    >>> percent(0.1234), percent(0.00567), percent(0.0009), percent(0.0)
    ('12.3%', '0.57%', '< 0.1%', '0%')
    """
    size = abs(weight)
    if size == 0:
        return "0%"
    sign = "−" if weight < 0 else ""
    if size < 0.001:
        return f"{sign}< 0.1%"
    return f"{sign}{100 * size:.{2 if size < 0.01 else 1}f}%"


def place_said(site: Site, head: int | None) -> Sentence:
    """Which site and head a picture is of; a head is called by its number in the model."""
    if site.kind == "aggregate" or (head is None and site.heads == 1):
        return "caption.aggregate", {"site": site.name}
    if head is None:
        return "caption.mean", {"site": site.name, "heads": site.heads}
    number = head if site.numbers is None else site.numbers[head]
    return "caption.head", {"site": site.name, "head": number}


def label_of(site: Site, state: State) -> str:
    """Whether rows are called by what was read or by what was produced."""
    if site.produced is None:
        return "read"
    return state.label or "produced"


def done_said(site: Site, state: State) -> list[Sentence]:
    """What was done to the weights of a map before it was coloured."""
    mended: list[Sentence] = [("caption.mended", {})] if site.maps.mended else []
    if site.long:
        rows, columns = site.maps.cells
        return [*mended, ("caption.cells", {"rows": rows, "columns": columns})]
    said: list[Sentence] = [*mended, (f"caption.rows.{label_of(site, state)}", {})]
    if state.hide:
        said.append((f"caption.hide.{state.hide[0] if len(state.hide) == 1 else 'both'}", {}))
    if state.unit != "piece":
        said.append((f"caption.unit.{state.unit}", {}))
    return said


def scale_said(state: State, largest: float) -> Sentence:
    """How weights became colours."""
    return f"caption.scale.{state.scale}", {"largest": percent(largest)}


def spoken(finding: Finding, language: str | None) -> FindingText:
    """What is said of a finding in a language, or in the first one that it has."""
    return finding.texts.get(language or "en") or next(iter(finding.texts.values()))


def check_said(check: str, language: str | None) -> str:
    """What a check is called in a badge; one that has no name of its own, as it is."""
    key = f"check.{check}"
    return say(key, language) if key in sentences("findings")["en"] else check


def value_of(finding: Finding, language: str | None) -> str:
    """The number of a finding and its limit, as they are shown; some observations have none."""
    if finding.severity == "observation" and finding.limit == 0:
        return f"{finding.value:.3g}"
    filled = {name: f"{getattr(finding, name):.3g}" for name in ("value", "limit")}
    return say("finding.value", language, **filled)


def title_of(scene: Scene) -> str:
    """What a scene is called: its own title, or the text that its first trace is of."""
    if scene.title:
        return scene.title
    stream = next(iter(scene.traces[0].streams.values()))
    text = stream.text(0, len(stream))
    return text if len(text) <= 80 else f"{text[:79]}…"
