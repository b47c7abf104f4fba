"""`regard.view`: the usual picture of any value that can be drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack, cast

from regard.arguments import describe
from regard.errors import InputError, UnknownNameError
from regard.types import AttentionMap, Finding, SummaryOnly, TaskResult, Trace
from regard.views.functions import (
    ViewOptions,
    check_state,
    compare,
    default_site,
    flow,
    highlight,
    make_view,
    overlay,
    row_of_token,
)
from regard.views.kind import EXACT_TOKENS
from regard.views.kinds import view_kind
from regard.views.outputs import View
from regard.views.reports import report
from regard.views.results import heard_trace, picture_view, result_trace, result_view

Window = tuple[str, int, range, range]

# Tokens on a side of the exact windows at both ends of a long map, of one head and of all heads:
# a window of all heads holds as many times more weights.
ONE_HEAD_WINDOW, ALL_HEADS_WINDOW = 256, 128
ROWS_AROUND_QUERY = 16  # rows before and after the query that a page of a long map holds exactly


def view(
    value: Any,
    kind: str | None = None,
    *,
    site: str | int | None = None,
    head: int | None = None,
    query: str | int | None = None,
    picture: bytes | Path | str | None = None,
    traces: Trace | Sequence[Trace] | None = None,
    **options: Unpack[ViewOptions],
) -> View:
    """The usual picture of a value: a trace, a task's result, two traces of one text, or findings.

    The result of a task with a picture, such as `regard.recognise`, is drawn as that picture, under
    the weights of the last layer that looked at it. That of `regard.classify` or `regard.answer` is
    drawn as its text, shaded by what the answer attended to; that of `regard.summarise` as its
    text, shaded by how the summary covers it, with the copied words underlined; that of
    `regard.translate` or `regard.transcribe` as its trace. A trace is drawn as a heatmap, or as an
    overlay if `picture` or `grid` is given; `kind` names another kind of
    `regard.views.kinds.KINDS`. Two traces are compared. Findings become a report, for which
    `traces` are those that were diagnosed.

    `site` is a name, or a number among the cross maps, or among all maps if none is cross; without
    one it is that of `heatmap`. `query` is the text of a token, or the number of its row. The page
    of a long text holds exactly its beginning, its end and what the query attends to. `options` are
    those of `heatmap`.

    >>> import torch, regard
    >>> trace = regard.Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
    >>> regard.view(trace)
    <heatmap view of 'weights'>
    >>> regard.view(trace, "highlight", query="爱").state.place
    1
    """
    if isinstance(value, Trace):
        return _trace_view(value, kind, site, head, query, picture, options)
    if isinstance(value, TaskResult):
        return _task_view(value, kind, site, head, query, options)
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InputError(
            "view expected a trace, a task's result, two traces to compare, or findings, got "
            f"{describe(value)}; make a trace with regard.capture"
        )
    values = [*value]
    if len(values) == 2 and all(isinstance(item, Trace) for item in values) and query is None:
        first, second = cast(list[Trace], values)
        _check_kind("compare", kind)
        chosen = None if site is None else choose_site(first, site)
        return compare(first, second, chosen, head, **options)
    if all(isinstance(item, Finding) for item in values):
        if traces is None:
            raise InputError(
                "a view of findings expected the traces that they are about; give them as traces="
            )
        return report(traces, cast(list[Finding], values), **options)
    raise InputError(
        "view expected a trace, a task's result, two traces to compare, or findings, got "
        f"{type(values[0]).__name__} in a {type(value).__name__}"
    )


def _task_view(
    result: TaskResult,
    kind: str | None,
    site: str | int | None,
    head: int | None,
    query: str | int | None,
    options: ViewOptions,
) -> View:
    """The usual picture of a result, or its trace where a kind, site, head or query is named."""
    usual = site is None and query is None
    if result.picture is not None:
        if usual and kind in (None, "overlay"):
            return picture_view(result, head, **options)
        return _trace_view(result.trace, kind, site, head, query, result.picture, options)
    draws_trace = result.task == "summarisation" and kind not in (None, "highlight")
    if result.task in ("translation", "transcription") or draws_trace:
        shown = heard_trace(result) if result.task == "transcription" else result.trace
        return _trace_view(shown, kind, site, head, query, None, options)
    if usual and head is None and kind in (None, "highlight"):
        return result_view(result, **options)
    trace, _ = result_trace(result, options.get("language"))
    return _trace_view(trace, kind, site, head, query, None, options)


def _check_kind(usual: str, kind: str | None) -> None:
    """Refuse a kind for two traces other than the one that shows two."""
    if kind not in (None, usual):
        raise InputError(f"two traces are drawn as {usual!r}, got kind={kind!r}; give one trace")


def _trace_view(
    trace: Trace,
    kind_name: str | None,
    site: str | int | None,
    head: int | None,
    query: str | int | None,
    picture: bytes | Path | str | None,
    options: ViewOptions,
) -> View:
    """The view of one trace, with the windows that its kind and query need."""
    is_image = picture is not None or "grid" in options
    kind = view_kind(kind_name or ("overlay" if is_image else "heatmap"))
    chosen = choose_site(trace, site)
    check_length(trace[chosen], kind.name)
    row = None if query is None else _query_row(trace, chosen, query)
    windows = exact_windows(trace[chosen], head, row)
    if windows and "windows" not in options:
        options["windows"] = windows
    drawn = _draw_kind(trace, kind.name, chosen, head, picture, options)
    if row is None or kind.name == "heads":
        return drawn
    pinned = drawn.with_state(place=row)
    check_state(pinned.scene, pinned.state)
    return pinned


def _draw_kind(
    trace: Trace,
    kind: str,
    site: str,
    head: int | None,
    picture: bytes | Path | str | None,
    options: ViewOptions,
) -> View:
    """The view of one kind; those that need more than a site and a head have their own function."""
    if kind == "highlight":
        return highlight(trace, None, site, head, **options)
    if kind == "flow":
        # Attention to a source is followed over the decoding steps.
        span = "time" if trace[site].kind == "cross" else "layers"
        return flow(trace, site, head, span=span, **options)
    if kind == "overlay":
        return overlay(trace, picture, site, head, **options)
    if kind == "compare":
        return compare(trace, None, site, head, **options)  # refuses: there is nothing to compare
    state: dict[str, Any] = {} if kind == "heads" else {"site": site, "head": head}
    return make_view((trace,), options, view=kind, **state)


def choose_site(trace: Trace, site: str | int | None = None) -> str:
    """The name of a site, given by name or by its number among the cross maps, else all maps."""
    maps = trace.of("cross") or trace.maps
    if not maps:
        gaps = "; ".join(f"{gap.site}: {gap.reason}" for gap in trace.gaps)
        raise InputError(f"nothing attended{f' that can be shown ({gaps})' if gaps else ''}")
    if site is None:
        return default_site(trace)
    if isinstance(site, int):
        if not 0 <= site < len(maps):
            raise InputError(f"no layer {site}; there are layers 0 to {len(maps) - 1}")
        return maps[site].site
    names = [attention_map.site for attention_map in trace.maps]
    if site not in names:
        raise UnknownNameError("layer", site, names)
    return site


def check_length(attention_map: AttentionMap, kind: str) -> None:
    """Refuse a map that is longer than a kind of picture can show."""
    most, longest = view_kind(kind).most_tokens, max(attention_map.shape[1:])
    if most is not None and longest > most:
        raise InputError(
            f"the view {kind!r} shows {most:,} tokens at most, got {longest:,}; show fewer with "
            "trace.part(stream, start, stop), or all with the view 'heatmap'"
        )


def _query_row(trace: Trace, site: str, query: str | int) -> int:
    """The row of a token, by its text, else by its number from 0."""
    if isinstance(query, int):
        return query
    scene = highlight(trace, None, site).scene
    try:
        return row_of_token(scene, site, query)
    except InputError:
        if not query.isdecimal():
            raise
        return int(query)


def exact_windows(
    attention_map: AttentionMap, head: int | None, row: int | None
) -> Sequence[Window]:
    """The parts of a long map that a page holds exactly: its start, its end, around the query."""
    rows, columns = attention_map.shape[1:]
    if max(rows, columns) <= EXACT_TOKENS or isinstance(attention_map.source, SummaryOnly):
        return ()
    side = ALL_HEADS_WINDOW if head is None else ONE_HEAD_WINDOW
    parts = [
        (range(min(side, rows)), range(min(side, columns))),
        (range(max(0, rows - side), rows), range(max(0, columns - side), columns)),
    ]
    if row is not None:
        near = range(max(0, row - ROWS_AROUND_QUERY), min(rows, row + ROWS_AROUND_QUERY))
        parts.append((near, range(columns)))
    numbers = range(attention_map.heads) if head is None else [head]
    heads = [number for number in numbers if number < attention_map.heads]
    return [(attention_map.site, number, *part) for part in parts for number in heads]
