"""The functions that make a view of a trace: one for each kind of picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.types import Trace
from regard.views.scene import Scene, build
from regard.views.state import Place, State
from regard.views.view import View


class Extras(TypedDict, total=False):
    """What every view can be given besides its trace: see `heatmap`."""

    title: str
    badges: Mapping[tuple[str, int], Sequence[str]]
    aggregates: Mapping[str, Tensor | NDArray[Any]]
    windows: Sequence[tuple[str, int, range, range]]
    pictures: Mapping[str, bytes | Path | str]
    whole: int
    unit: str
    hide: Sequence[str]
    scale: str
    language: str
    theme: str


STATES = ("unit", "hide", "scale", "language", "theme")


def check_extras(view: str, given: Mapping[str, Any]) -> None:
    """Refuse what no view can be given."""
    for name in given:
        if name not in Extras.__annotations__:
            raise TypeError(f"{view} got an unexpected argument {name!r}")


def heatmap(
    trace: Trace, site: str | None = None, head: int | None = None, **extras: Unpack[Extras]
) -> View:
    """Queries x keys of one head of a site; without a head, the mean over heads.

    Without a site it is the first one, or the first cross map of a trace that has some. An
    aggregate that the caller gives (`aggregates={"rollout": weights}`) is a site too. `unit` is
    piece, word or sentence; `hide` leaves out the "first" or the "special" tokens and
    renormalises; `scale` is linear, log or row. `badges` are short texts by (site, head).
    Of maps with more than `whole` tokens a page holds cells, and exactly the `windows`
    (site, head, rows, columns) that are named.

    >>> import torch
    >>> from regard.types import Trace
    >>> from regard.views import heatmap
    >>> heatmap(Trace.from_weights(torch.eye(3), ["我", "爱", "中国"]), head=0)
    <heatmap view of 'weights', head 0>
    """
    return _view((trace,), extras, view="heatmap", site=site, head=head)


def highlight(
    trace: Trace,
    query: int | str | None = None,
    site: str | None = None,
    head: int | None = None,
    **extras: Unpack[Extras],
) -> View:
    """The text itself, shaded by what a query looked at; without one, by all on average.

    A query is a row of the map, or the text of its token.
    """
    depth = "layer" if head is None else "head"
    return _view((trace,), extras, view="highlight", site=site, head=head, place=query, depth=depth)


def flow(
    trace: Trace,
    site: str | None = None,
    head: int | None = None,
    *,
    span: str = "layers",
    threshold: float | None = None,
    **extras: Unpack[Extras],
) -> View:
    """Lines from token to token: of one site, across "all" layers, or over decoding "time"."""
    return _view(
        (trace,), extras, view="flow", site=site, head=head, span=span, threshold=threshold
    )


def heads(trace: Trace, **extras: Unpack[Extras]) -> View:
    """Every head of every site as a small map, in one glance."""
    return _view((trace,), extras, view="heads")


def overlay(
    trace: Trace,
    picture: bytes | Path | str | None = None,
    site: str | None = None,
    head: int | None = None,
    **extras: Unpack[Extras],
) -> View:
    """Attention over patches laid over their picture, a PNG, JPEG or GIF file."""
    grids = [name for name, tokens in trace.streams.items() if tokens.grid is not None]
    if not grids:
        raise InputError(
            "no stream of this trace has a grid of patches; trace a model that looks at an image"
        )
    if site is None:
        site = next((each.site for each in trace.maps if each.columns.stream in grids), None)
    if picture is not None:
        stream = trace[site].columns.stream if site is not None else grids[0]
        extras["pictures"] = {**extras.get("pictures", {}), stream: picture}
    return _view((trace,), extras, view="image", site=site, head=head)


def compare(
    first: Trace,
    second: Trace | None = None,
    site: str | None = None,
    head: int | None = None,
    *,
    other: Place | None = None,
    **extras: Unpack[Extras],
) -> View:
    """Two traces of one text side by side with their difference, or two heads of one trace.

    `other` names the site and head that `site` and `head` are compared with; without it, the same
    ones of the second trace.
    """
    traces = (first,) if second is None else (first, second)
    if second is None and other is None:
        raise InputError("compare expected a second trace, or the `other` place of the same one")
    if other is None and second is not None:
        known = [each.site for each in second.maps]
        # two models may name their sites differently: the place in the order counts then
        its = site if site in known or site is None else _counterpart(first, second, site)
        other = Place(1, its, head)
    return _view(traces, extras, view="compare", site=site, head=head, other=other)


def _counterpart(first: Trace, second: Trace, site: str) -> str | None:
    index = [each.site for each in first.maps].index(first[site].site)
    return second.maps[index].site if index < len(second.maps) else None


def _view(traces: tuple[Trace, ...], extras: Extras, **state: Any) -> View:
    given: dict[str, Any] = dict(extras)
    check_extras(state["view"], given)
    for name in {*STATES} & {*given}:
        state[name] = tuple(given.pop(name)) if name == "hide" else given.pop(name)
    scene = build(*traces, **given)
    if state.get("site") is None and state["view"] not in ("heads", "compare"):
        state["site"] = _usual(scene)
    if isinstance(state.get("place"), str):
        state["place"] = _row(scene, state["site"], state["place"])
    found = State(**state)
    _check(scene, found)
    return View(scene, found)


def _usual(scene: Scene) -> str:
    """The site to begin with: the last cross map of a translation, else the first map."""
    cross = [site.name for site in scene.traces[0].sites if site.kind == "cross"]
    return cross[-1] if cross else scene.traces[0].sites[0].name


def _row(scene: Scene, name: str, text: str) -> int:
    """The first row whose token, word or plain text is this."""
    traced = scene.traces[0]
    site = traced.site(name)
    for axis in (site.produced, site.rows):
        if axis is None:
            continue
        stream = traced.streams[axis.stream]
        for index, place in enumerate(axis.places):
            if text in (stream.texts[place], stream.plain[place]):
                return index
    raise InputError(
        f"no row of {name!r} is {text!r}; give the text of a token, or its number from 0 to "
        f"{len(site.rows) - 1}"
    )


def _check(scene: Scene, state: State) -> None:
    """Refuse a site, head or row that is not there, before anything is drawn."""
    site = scene.trace(state.trace).site(state.site)
    if state.head is not None and state.head >= site.heads:
        raise InputError(
            f"no head {state.head} at {site.name!r}; it has heads 0 to {site.heads - 1}"
        )
    if state.place is not None and state.place >= len(site.rows):
        raise InputError(
            f"no row {state.place} at {site.name!r}; it has rows 0 to {len(site.rows) - 1}"
        )
