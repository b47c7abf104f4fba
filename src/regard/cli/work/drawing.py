"""From a trace and what was asked for to the view that shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import InputError, UnknownNameError
from regard.types import AttentionMap, Summary, Trace
from regard.views import View, flow, heads, heatmap, highlight, overlay
from regard.views.scene.maps import WHOLE

Window = tuple[str, int, range, range]

_SIDE = 256  # tokens on a side of the windows that a page of a long text holds, of one head
_SIDES = 128  # of all heads
_NEAR = 16  # rows before and after the one that is asked for


@dataclass(frozen=True)
class Wish:
    """Which picture of which site, head and token; None is what is usual for the trace."""

    view: str | None = None
    layer: str | None = None
    head: int | None = None
    query: str | None = None
    language: str = "en"


def draw(
    trace: Trace, wish: Wish, picture: bytes | None = None, usual_layer: int | None = None
) -> View:
    """The view of the trace that was wished for."""
    site = site_of(trace, wish.layer, usual_layer)
    kind = wish.view or ("heatmap" if picture is None else "image")
    _check_length(trace[site], kind)
    place = None if wish.query is None else _place(trace, site, wish)
    extras: dict[str, Any] = {"language": wish.language}
    windows = _windows(trace[site], wish.head, place)
    if windows:
        extras["windows"] = windows
    found = _kinds(trace, kind, site, wish.head, picture, extras)
    if place is None or kind == "heads":
        return found
    return found.with_state(place=place)


def _kinds(
    trace: Trace,
    kind: str,
    site: str,
    head: int | None,
    picture: bytes | None,
    extras: dict[str, Any],
) -> View:
    if kind == "heads":
        return heads(trace, **extras)
    if kind == "highlight":
        return highlight(trace, None, site, head, **extras)
    if kind == "flow":
        span = "time" if trace[site].kind == "cross" else "layers"
        return flow(trace, site, head, span=span, **extras)
    if kind == "image":
        return overlay(trace, picture, site, head, **extras)
    return heatmap(trace, site, head, **extras)


def _check_length(each: AttentionMap, kind: str) -> None:
    longest = max(each.shape[1:])
    if kind in ("highlight", "flow") and longest > WHOLE:
        raise InputError(
            f"--view {kind} shows {WHOLE:,} tokens at most, got {longest:,}; show fewer with "
            f"--limit {WHOLE}, or all with --view heatmap"
        )


def site_of(trace: Trace, layer: str | None, usual_layer: int | None = None) -> str:
    """The site to look at: by name, or by its number among the cross maps, or among all."""
    cross = trace.of("cross")
    maps = cross or trace.maps
    if not maps:
        gaps = "; ".join(f"{gap.site}: {gap.reason}" for gap in trace.gaps)
        raise InputError(f"nothing attended{f' that can be shown ({gaps})' if gaps else ''}")
    if layer is not None and not layer.isdecimal():
        names = [each.site for each in trace.maps]
        if layer not in names:
            raise UnknownNameError("layer", layer, names)
        return layer
    number = usual_layer if layer is None and cross else None if layer is None else int(layer)
    if number is not None and number >= len(maps):
        raise InputError(f"no layer {number}; there are layers 0 to {len(maps) - 1}")
    return maps[-1 if number is None else number].site


def _place(trace: Trace, site: str, wish: Wish) -> int:
    """The row of the token that was asked for: by its text, else by its number from 0."""
    assert wish.query is not None
    try:
        found = highlight(trace, wish.query, site).state.place
    except InputError:
        if not wish.query.isdecimal():
            raise
        found = highlight(trace, int(wish.query), site).state.place
    assert found is not None
    return found


def _windows(each: AttentionMap, head: int | None, place: int | None) -> Sequence[Window]:
    """What a page of a long map holds exactly: its beginning, its end, and around the query."""
    if max(each.shape[1:]) <= WHOLE or isinstance(each.source, Summary):
        return ()
    side = _SIDES if head is None else _SIDE
    rows, columns = each.shape[1:]
    ends = [
        (range(min(side, rows)), range(min(side, columns))),
        (range(max(0, rows - side), rows), range(max(0, columns - side), columns)),
    ]
    if place is not None:
        near = range(max(0, place - _NEAR), min(rows, place + _NEAR))
        ends.append((near, range(columns)))
    chosen = range(each.heads) if head is None else [head]
    inside = [number for number in chosen if number < each.heads]
    return [(each.site, number, *run) for run in ends for number in inside]
