"""A report: findings in sentences, each beside the picture that shows it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from regard.arguments import check_first_argument
from regard.errors import InputError, UnknownNameError
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding, FindingView
from regard.views.functions import STATE_OPTIONS, ViewOptions, check_options
from regard.views.kinds import finding_kinds
from regard.views.outputs import View
from regard.views.scene import Scene, SceneTrace, build_scene
from regard.views.state import ViewState

MOST_TRACES = 6  # that a report holds
_NAME_LENGTH = 28  # characters of its text that a trace is called by


@check_first_argument
def report(
    traces: Trace | Sequence[Trace], findings: Sequence[Finding], **options: Unpack[ViewOptions]
) -> View:
    """Findings beside their pictures: a page to click through, a list in the terminal.

    The worst come first. The page holds the first trace, which the options of `heatmap` belong to,
    and those that findings name as their example, at most six; a finding of another trace has its
    sentence but no picture. A figure shows the first finding that has a picture.

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
    scene_options: dict[str, Any] = dict(options)
    check_options("report", scene_options)
    state = {name: scene_options.pop(name) for name in STATE_OPTIONS if name in scene_options}
    all_traces = (traces,) if isinstance(traces, Trace) else tuple(traces)
    if not all_traces:
        raise InputError("report expected a trace or more, got none")
    _check_findings(all_traces, findings)
    ordered = sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))
    numbers = _trace_numbers(ordered)
    shown_traces = [all_traces[number] for number in numbers]
    scene = _report_scene(
        shown_traces, numbers, _renumber_findings(ordered, numbers), scene_options
    )
    state |= {"hide": tuple(state.get("hide", ()))}
    return View(scene, first_state(scene, ViewState(**state)))


def first_state(scene: Scene, state: ViewState) -> ViewState:
    """The state that opens the first finding with a picture; without one, the overview of heads."""
    for index, finding in enumerate(scene.findings or ()):
        if finding.view is not None:
            return open_finding(finding, index, state)
    return replace(state, view="heads")


def open_finding(finding: Finding, index: int, state: ViewState) -> ViewState:
    """The state that shows the picture of a finding."""
    shown = finding.view
    assert shown is not None
    by_column = bool(shown.columns) and not shown.rows
    places = shown.columns if by_column else shown.rows
    return replace(
        state,
        view=shown.kind,
        trace=finding.example,
        site=shown.site,
        head=shown.head,
        heads=None,
        axis="column" if by_column else "row",
        place=places[0] if places else None,
        span="layers",
        depth="layer" if shown.head is None else "head",
        label=None,
        threshold=None,
        other=None,
        finding=index,
    )


def _check_findings(traces: Sequence[Trace], findings: Sequence[Finding]) -> None:
    """Refuse a picture of a trace, site, head or token that is not there."""
    for finding in findings:
        if not 0 <= finding.example < len(traces):
            raise InputError(
                f"the finding {finding.check!r} is of trace {finding.example}, and there are "
                f"{len(traces)}, numbered from 0; give all traces that were diagnosed"
            )
        if finding.view is not None:
            _check_finding_view(traces[finding.example], finding.check, finding.view)


def _check_finding_view(trace: Trace, check: str, shown: FindingView) -> None:
    """Refuse a kind, site, head or token that the finding's trace cannot show."""
    if shown.kind not in finding_kinds():
        raise UnknownNameError(f"view for the finding {check!r}", shown.kind, finding_kinds())
    if shown.site is None and not (shown.rows or shown.columns or shown.head):
        return
    attention_map = trace.maps[0] if shown.site is None else trace[shown.site]
    named = ("head", [] if shown.head is None else [shown.head]), ("row", shown.rows)
    axes = (*named, ("column", shown.columns))
    for (name, indices), size in zip(axes, attention_map.shape, strict=True):
        for index in indices:
            if not 0 <= index < size:
                raise InputError(
                    f"the picture of the finding {check!r} has {name} {index} of "
                    f"{attention_map.site!r}, which has {size}"
                )


def _trace_numbers(findings: Sequence[Finding]) -> list[int]:
    """The numbers of the traces that the scene holds: the first and those of the worst findings."""
    examples = (finding.example for finding in findings if finding.view)
    return sorted([*dict.fromkeys([0, *examples])][:MOST_TRACES])


def _renumber_findings(findings: Sequence[Finding], numbers: Sequence[int]) -> tuple[Finding, ...]:
    """Findings whose examples are indices into the traces of the scene, not of all traces."""
    index_of = {number: index for index, number in enumerate(numbers)}
    return tuple(
        replace(finding, example=index_of[finding.example])
        if finding.example in index_of
        else replace(finding, example=0, view=None)
        for finding in findings
    )


def _report_scene(
    traces: Sequence[Trace],
    numbers: Sequence[int],
    findings: tuple[Finding, ...],
    options: Mapping[str, Any],
) -> Scene:
    """The traces side by side, each with the badges of its heads; they are not compared."""
    scenes = []
    for index, (trace, number) in enumerate(zip(traces, numbers, strict=True)):
        # Sites, windows and pictures that the caller names are those of the first trace.
        own = options if index == 0 else {k: options[k] for k in ("whole",) if k in options}
        badges = _finding_badges(trace, findings, own.get("badges", {}))
        scene = build_scene(trace, **(dict(own) | {"badges": badges, "title": ""}))
        (scene_trace,) = scene.traces
        name = _trace_name(scene_trace, number) if len(traces) > 1 else ""
        sites = tuple(replace(site, maps=site.maps.mend()) for site in scene_trace.sites)
        scenes.append(replace(scene, traces=(replace(scene_trace, name=name, sites=sites),)))
    more = next((scene.more for scene in scenes if scene.more), None)
    title = options.get("title", "")
    return Scene(tuple(scene.traces[0] for scene in scenes), title, None, more, findings)


def _finding_badges(
    trace: Trace, findings: Sequence[Finding], own: Mapping[tuple[str, int], Sequence[str]]
) -> Mapping[tuple[str, int], Sequence[str]]:
    """The badges of the caller by (site, head), then the checks that found something there."""
    badges: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for key, texts in own.items():
        badges[key] |= dict.fromkeys(texts)
    known = {attention_map.site for attention_map in trace.maps}
    for finding in findings:
        if finding.site in known and finding.head is not None:
            badges[finding.site, finding.head][finding.check] = None
    return {key: tuple(texts) for key, texts in badges.items()}


def _trace_name(trace: SceneTrace, number: int) -> str:
    """What a trace is called: its number from 1 and the beginning of its text."""
    stream = next(iter(trace.streams.values()))
    ordinary = [index for index in range(len(stream)) if index not in stream.special]
    text = stream.text(ordinary[0], ordinary[-1] + 1) if stream.named and ordinary else ""
    short = text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1].rstrip()}…"
    return f"{number + 1} · {short}" if short else str(number + 1)
