"""A report: findings in sentences, each beside the picture that shows it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

from regard.errors import InputError
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding, FindingView
from regard.views.functions import STATES, Extras, check_extras
from regard.views.scene import Scene, Traced, build
from regard.views.state import State
from regard.views.view import View

MOST = 6  # traces that a report holds
_NAME = 28  # letters of a text that its trace is called by


def report(
    traces: Trace | Sequence[Trace], findings: Sequence[Finding], **extras: Unpack[Extras]
) -> View:
    """Findings beside their pictures: a page to click through, a list in the terminal.

    The worst come first. The page holds the first trace, which the extras of `heatmap` belong to,
    and those that findings name as their example, at most six; a finding of another one is told
    without its picture. A figure is that of the first finding that has one.

    >>> import torch
    >>> from regard.types import Trace
    >>> from regard.types.finding import Finding, FindingText, FindingView
    >>> from regard.views import report
    >>> texts = {"en": FindingText("Head 0 looks at itself."), "zh": FindingText("第 0 头看自身。")}
    >>> heatmap = FindingView("heatmap")
    >>> sink = Finding("sink", "observation", 0.9, 0.5, texts, "weights", 0, 0, heatmap)
    >>> report(Trace.from_weights(torch.eye(3), ["我", "爱", "你"]), [sink])
    <report of 1 finding>
    """
    given: dict[str, Any] = dict(extras)
    check_extras("report", given)
    state = {name: given.pop(name) for name in STATES if name in given}
    every = (traces,) if isinstance(traces, Trace) else tuple(traces)
    if not every:
        raise InputError("report expected a trace or more, got none")
    _check(every, findings)
    ordered = sorted(findings, key=lambda each: -SEVERITIES.index(each.severity))
    held = _held(ordered)
    scene = _scene([every[each] for each in held], held, _placed(ordered, held), given)
    state |= {"hide": tuple(state.get("hide", ()))}
    return View(scene, first_state(scene, State(**state)))


def first_state(scene: Scene, state: State) -> State:
    """The first finding that has a picture, opened; without one, the overview of heads."""
    for index, finding in enumerate(scene.findings or ()):
        if finding.view is not None:
            return opened(finding, index, state)
    return replace(state, view="heads")


def opened(finding: Finding, index: int, state: State) -> State:
    """The state that shows the picture of a finding."""
    drawing = finding.view
    assert drawing is not None
    by_column = bool(drawing.columns) and not drawing.rows
    places = drawing.columns if by_column else drawing.rows
    return replace(
        state,
        view=cast(Any, drawing.kind),  # the state itself refuses a kind that does not exist
        trace=finding.example,
        site=drawing.site,
        head=drawing.head,
        heads=None,
        axis="column" if by_column else "row",
        place=places[0] if places else None,
        span="layers",
        depth="layer" if drawing.head is None else "head",
        label=None,
        threshold=None,
        other=None,
        finding=index,
    )


def _check(traces: Sequence[Trace], findings: Sequence[Finding]) -> None:
    """Refuse a picture of a trace, site, head or token that is not there."""
    for finding in findings:
        if not 0 <= finding.example < len(traces):
            raise InputError(
                f"the finding {finding.check!r} is of trace {finding.example}, and there are "
                f"{len(traces)}, numbered from 0; give all traces that were diagnosed"
            )
        if finding.view is not None:
            _check_drawing(traces[finding.example], finding.check, finding.view)


def _check_drawing(trace: Trace, check: str, drawing: FindingView) -> None:
    if drawing.site is None and not (drawing.rows or drawing.columns or drawing.head):
        return
    seen = trace.maps[0] if drawing.site is None else trace[drawing.site]
    named = ("head", [] if drawing.head is None else [drawing.head]), ("row", drawing.rows)
    for (name, places), size in zip((*named, ("column", drawing.columns)), seen.shape, strict=True):
        for place in places:
            if not 0 <= place < size:
                raise InputError(
                    f"the picture of the finding {check!r} has {name} {place} of {seen.site!r}, "
                    f"which has {size}"
                )


def _held(findings: Sequence[Finding]) -> list[int]:
    """The traces that are in the scene: the first, and those of the worst findings."""
    wanted = dict.fromkeys([0, *(each.example for each in findings if each.view)])
    return sorted([*wanted][:MOST])


def _placed(findings: Sequence[Finding], held: Sequence[int]) -> tuple[Finding, ...]:
    """Findings with the numbers that their traces have in the scene."""
    numbers = {example: index for index, example in enumerate(held)}
    return tuple(
        replace(each, example=numbers[each.example])
        if each.example in numbers
        else replace(each, example=0, view=None)
        for each in findings
    )


def _scene(
    traces: Sequence[Trace],
    numbers: Sequence[int],
    findings: tuple[Finding, ...],
    extras: Mapping[str, Any],
) -> Scene:
    """The traces side by side, each with the badges of its heads; they are not compared."""
    found = []
    for index, (trace, number) in enumerate(zip(traces, numbers, strict=True)):
        given = extras if index == 0 else {"whole": extras["whole"]} if "whole" in extras else {}
        badges = _badges(trace, findings, given.get("badges", {}))
        found.append(build(trace, **(dict(given) | {"badges": badges, "title": ""})))
        (traced,) = found[-1].traces
        name = _name(traced, number) if len(traces) > 1 else ""
        sites = tuple(replace(site, maps=site.maps.mend()) for site in traced.sites)
        found[-1] = replace(found[-1], traces=(replace(traced, name=name, sites=sites),))
    more = next((each.more for each in found if each.more), None)
    title = extras.get("title", "")
    return Scene(tuple(each.traces[0] for each in found), title, None, more, findings)


def _badges(
    trace: Trace, findings: Sequence[Finding], given: Mapping[tuple[str, int], Sequence[str]]
) -> Mapping[tuple[str, int], Sequence[str]]:
    """The checks that found something at each head, after the badges that the caller gave."""
    found: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for place, texts in given.items():
        found[place] |= dict.fromkeys(texts)
    known = {each.site for each in trace.maps}
    for each in findings:
        if each.site in known and each.head is not None:
            found[each.site, each.head][each.check] = None
    return {place: tuple(texts) for place, texts in found.items()}


def _name(traced: Traced, number: int) -> str:
    """A trace by its number and the beginning of its text."""
    stream = next(iter(traced.streams.values()))
    plain = [place for place in range(len(stream)) if place not in stream.special]
    text = stream.text(plain[0], plain[-1] + 1) if stream.named and plain else ""
    short = text if len(text) <= _NAME else f"{text[: _NAME - 1].rstrip()}…"
    return f"{number + 1} · {short}" if short else str(number + 1)
