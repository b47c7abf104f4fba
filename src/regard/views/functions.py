"""The functions that make a view of a trace, one for each kind of picture.

They only choose: which site, head and token to begin with. What they return is a `View`, which
holds the whole trace, so that a reader of a page can go to any other site, head or kind.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from numpy.typing import NDArray
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.types import Trace
from regard.unicode import cut_text
from regard.views.grids import Grid, add_grid, has_grid
from regard.views.outputs import View
from regard.views.scene import Scene, build_scene
from regard.views.scene.streams import LONGEST_TOKEN
from regard.views.state import MapReference, ViewState


class ViewOptions(TypedDict, total=False):
    """The keyword arguments that every view takes besides its trace; `heatmap` explains them."""

    title: str
    badges: Mapping[tuple[str, int], Sequence[str]]
    aggregates: Mapping[str, Tensor | NDArray[Any]]
    windows: Sequence[tuple[str, int, range, range]]
    pictures: Mapping[str, bytes | Path | str]
    grid: Grid
    whole: int
    unit: str
    hide: Sequence[str]
    scale: str
    language: str
    theme: str


STATE_OPTIONS = ("unit", "hide", "scale", "language", "theme")  # the others describe the scene


def check_options(function: str, options: Mapping[str, Any]) -> None:
    """Refuse a keyword argument that no view takes."""
    for name in options:
        if name not in ViewOptions.__annotations__:
            raise TypeError(f"{function} got an unexpected argument {name!r}")


@check_first_argument
def heatmap(
    trace: Trace, site: str | None = None, head: int | None = None, **options: Unpack[ViewOptions]
) -> View:
    """Queries x keys of one head of a site; without a head, the mean over heads.

    Without a site it is the last cross-attention map, or the first map if there is none. An
    aggregate that the caller gives (`aggregates={"rollout": weights}`) is a site too. `unit` is
    piece, word or sentence; `hide` leaves out the "first" or the "special" tokens and renormalises;
    `scale` is linear, log or row. `badges` are short texts by (site, head). Of maps with more than
    `whole` tokens a page holds cells of several tokens, and exactly the `windows` (site, head,
    rows, columns) that are named. `grid` names the rows and columns of the patches of a picture,
    for `overlay`, in a trace whose model does not tell them.

    >>> import torch
    >>> from regard.types import Trace
    >>> from regard.views import heatmap
    >>> heatmap(Trace.from_weights(torch.eye(3), ["我", "爱", "中国"]), head=0)
    <heatmap view of 'weights', head 0>
    """
    return make_view((trace,), options, view="heatmap", site=site, head=head)


@check_first_argument
def highlight(
    trace: Trace,
    query: int | str | None = None,
    site: str | None = None,
    head: int | None = None,
    **options: Unpack[ViewOptions],
) -> View:
    """The text of the keys, shaded by the weights of a query, or by the mean over all queries.

    A query is a row of the map, or the text of its token.
    """
    depth = "layer" if head is None else "head"
    return make_view(
        (trace,), options, view="highlight", site=site, head=head, place=query, depth=depth
    )


@check_first_argument
def flow(
    trace: Trace,
    site: str | None = None,
    head: int | None = None,
    *,
    span: str = "layers",
    threshold: float | None = None,
    **options: Unpack[ViewOptions],
) -> View:
    """Lines from token to token: of one site, across "all" layers, or over decoding "time"."""
    return make_view(
        (trace,), options, view="flow", site=site, head=head, span=span, threshold=threshold
    )


@check_first_argument
def heads(trace: Trace, **options: Unpack[ViewOptions]) -> View:
    """Every head of every site as a small map, in one overview."""
    return make_view((trace,), options, view="heads")


@check_first_argument
def overlay(
    trace: Trace,
    picture: bytes | Path | str | None = None,
    site: str | None = None,
    head: int | None = None,
    **options: Unpack[ViewOptions],
) -> View:
    """Attention over image patches laid over their picture, a PNG, JPEG or GIF file.

    For a model that does not tell the grid of its patches, such as a ViT written by hand, a square
    of patches is recognised, with a class token or without one; grid=(14, 14) names any other. The
    patches are the last tokens, row by row.
    """
    grid = options.pop("grid", None)
    if site is None and grid is None:
        site = next((each.site for each in trace.maps if has_grid(trace, each.site)), None)
    if site is None or grid is not None or not has_grid(trace, site):
        trace, site = add_grid(trace, site, grid)
    if picture is not None:
        stream = trace[site].columns.stream
        options["pictures"] = {**options.get("pictures", {}), stream: picture}
    return make_view((trace,), options, view="overlay", site=site, head=head)


def compare(
    first: Trace,
    second: Trace | None = None,
    site: str | None = None,
    head: int | None = None,
    *,
    other: MapReference | None = None,
    **options: Unpack[ViewOptions],
) -> View:
    """Two traces of one text side by side with their difference, or two heads of one trace.

    `other` names the site and head that `site` and `head` are compared with; without it, the same
    ones of the second trace.
    """
    traces = (first,) if second is None else (first, second)
    if second is None and other is None:
        raise InputError("compare expected a second trace, or the `other` place of the same one")
    if other is None and second is not None:
        known = [attention_map.site for attention_map in second.maps]
        # Two models may name their sites differently: then the one at the same index is meant.
        same_name = site is None or site in known
        counterpart = site if same_name else _site_at_same_index(first, second, str(site))
        other = MapReference(1, counterpart, head)
    return make_view(traces, options, view="compare", site=site, head=head, other=other)


def _site_at_same_index(first: Trace, second: Trace, site: str) -> str | None:
    """The site of the second trace at the index that a site has in the first."""
    index = [attention_map.site for attention_map in first.maps].index(first[site].site)
    return second.maps[index].site if index < len(second.maps) else None


def default_site(trace: Trace) -> str:
    """The site that pictures show first: the last cross-attention map, else the first map."""
    cross = trace.of("cross")
    return cross[-1].site if cross else trace.maps[0].site


def make_view(traces: tuple[Trace, ...], options: ViewOptions, **state: Any) -> View:
    """The view of some traces whose state has these fields; `state["view"]` is the kind."""
    scene_options: dict[str, Any] = dict(options)
    check_options(state["view"], scene_options)
    for name in {*STATE_OPTIONS} & {*scene_options}:
        value = scene_options.pop(name)
        state[name] = tuple(value) if name == "hide" else value
    if "grid" in scene_options:
        first, _ = add_grid(traces[0], state.get("site"), scene_options.pop("grid"))
        traces = (first, *traces[1:])
    scene = build_scene(*traces, **scene_options)
    if state.get("site") is None and state["view"] not in ("heads", "compare"):
        state["site"] = default_site(traces[0])
    if isinstance(state.get("place"), str):
        state["place"] = row_of_token(scene, state["site"], state["place"])
    first_state = ViewState(**state)
    check_state(scene, first_state)
    return View(scene, first_state)


def row_of_token(scene: Scene, site_name: str, text: str) -> int:
    """The first row of a site whose token has this text, produced tokens before those read."""
    trace = scene.traces[0]
    site = trace.site(site_name)
    text = cut_text(text, LONGEST_TOKEN)  # as the texts of the scene are
    for axis in (site.produced, site.rows):
        if axis is None:
            continue
        stream = trace.streams[axis.stream]
        for index, position in enumerate(axis.positions):
            if text in (stream.texts[position], stream.plain[position]):
                return index
    raise InputError(
        f"no row of {site_name!r} is {text!r}; give the text of a token, or its number from 0 to "
        f"{len(site.rows) - 1}"
    )


def check_state(scene: Scene, state: ViewState) -> None:
    """Refuse a site, head or row that the scene does not have, before anything is drawn."""
    site = scene.trace(state.trace).site(state.site)
    if state.head is not None and state.head >= site.heads:
        raise InputError(
            f"no head {state.head} at {site.name!r}; it has heads 0 to {site.heads - 1}"
        )
    if state.place is not None and state.place >= len(site.rows):
        raise InputError(
            f"no row {state.place} at {site.name!r}; it has rows 0 to {len(site.rows) - 1}"
        )
