"""Captions: what a picture shows and how its numbers were processed, in two languages.

A caption is a list of sentences, each a key of the texts with the values to fill in:
`("caption.head", {"site": "h.2", "head": 3})` becomes "h.2, head 3." or its Chinese.
`page_sentences` gives all sentences that a page carries along, because a page changes its language
without Python.
"""

from collections.abc import Iterable
from typing import Any

from regard.text import say, sentences
from regard.types.finding import Finding, FindingText
from regard.unicode import cut_text
from regard.views.scene import SceneSite
from regard.views.state import ViewState

LONGEST_NAME = 200  # characters of a site's name that are shown
LONGEST_SENTENCE = 4000  # characters of a sentence of a finding that are shown
# Between two sentences: Chinese ones end in a full-width stop and need no space.
SENTENCE_GAP = {"en": " ", "zh": ""}
Sentence = tuple[str, dict[str, Any]]  # a key of regard.text, and the values to fill in


def join_sentences(language: str | None, parts: Iterable[Sentence]) -> str:
    """Sentences of `regard.text` by key, filled in and joined as the language does."""
    return SENTENCE_GAP[language or "en"].join(
        say(key, language, **values) for key, values in parts
    )


def page_sentences() -> dict[str, dict[str, str]]:
    """The sentences that a page carries with it, by language and key."""
    return sentences("page", "views", "findings")


def percent(weight: float) -> str:
    """A weight in percent, with no more digits than its encoding on a page can hold.

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


def site_sentence(site: SceneSite, head: int | None) -> Sentence:
    """Which site and head a picture is of; a head is called by its number in the model."""
    name = cut_text(site.name, LONGEST_NAME)
    if site.kind == "aggregate" or (head is None and site.heads == 1):
        return "caption.aggregate", {"site": name}
    if head is None:
        return "caption.mean", {"site": name, "heads": site.heads}
    number = head if site.numbers is None else site.numbers[head]
    return "caption.head", {"site": name, "head": number}


def site_title(site: SceneSite, language: str | None) -> str:
    """A short name of a site, its kind and layer ("cross 1"); an aggregate has its own name."""
    if site.layer is None:
        return cut_text(site.name, LONGEST_NAME)
    return f"{say(f'kind.{site.kind}', language)} {site.layer}"


def row_naming(site: SceneSite, state: ViewState) -> str:
    """Which tokens name the rows: those that were "read", or those "produced" from them."""
    if site.produced is None:
        return "read"
    return state.label or "produced"


def processing_sentences(site: SceneSite, state: ViewState) -> list[Sentence]:
    """What was done to the weights of a map before it was coloured."""
    mended: list[Sentence] = [("caption.mended", {})] if site.maps.mended else []
    if site.long:
        rows, columns = site.maps.cells
        return [*mended, ("caption.cells", {"rows": rows, "columns": columns})]
    sentences: list[Sentence] = [*mended, (f"caption.rows.{row_naming(site, state)}", {})]
    if state.hide:
        hidden = state.hide[0] if len(state.hide) == 1 else "both"
        sentences.append((f"caption.hide.{hidden}", {}))
    if state.unit != "piece":
        sentences.append((f"caption.unit.{state.unit}", {}))
    return sentences


def scale_sentence(state: ViewState, largest: float) -> Sentence:
    """How weights became colours."""
    return f"caption.scale.{state.scale}", {"largest": percent(largest)}


def finding_text(finding: Finding, language: str | None) -> FindingText:
    """The sentences of a finding in a language, or in the first language that it has."""
    text = finding.texts.get(language or "en") or next(iter(finding.texts.values()))
    parts = (text.sentence, text.meaning, text.remedy)
    return FindingText(*(cut_text(part, LONGEST_SENTENCE) for part in parts))


def check_label(check: str, language: str | None) -> str:
    """What a check is called in a badge; a check without a name of its own is called by its key."""
    key = f"check.{check}"
    known = key in sentences("findings")["en"]
    return say(key, language) if known else cut_text(check, LONGEST_NAME)


def finding_value(finding: Finding, language: str | None) -> str:
    """The number of a finding with its limit; an observation without a limit shows the number."""
    if finding.severity == "observation" and finding.limit == 0:
        return f"{finding.value:.3g}"
    values = {name: f"{getattr(finding, name):.3g}" for name in ("value", "limit")}
    return say("finding.value", language, **values)
