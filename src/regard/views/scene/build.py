"""A scene from traces: what is in the page, the figure and the notebook is chosen here."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import FileError, InputError, ShapeError, UnknownNameError
from regard.types import AttentionMap, Axis, Dense, Trace
from regard.views.kind import EXACT_TOKENS
from regard.views.scene.alignment import align_traces
from regard.views.scene.maps import TraceMaps, Window
from regard.views.scene.streams import TokenStream
from regard.views.scene.values import Picture, Scene, SceneSite, SceneTrace

Badges = Mapping[tuple[str, int], Sequence[str]]
MORE = "regard.heatmap(trace, site=…, windows=[(site, head, rows, columns)]).save(…)"
_PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def build_scene(
    *traces: Trace,
    names: Sequence[str] = (),
    title: str = "",
    badges: Badges | None = None,
    aggregates: Mapping[str, Tensor | NDArray[Any]] | None = None,
    windows: Sequence[tuple[str, int, range, range]] = (),
    pictures: Mapping[str, bytes | Path | str] | None = None,
    whole: int = EXACT_TOKENS,
) -> Scene:
    """The scene of one trace, or of two to compare.

    `badges` are short texts by (site, head). `aggregates` are maps by name that have the rows and
    columns of a map of the trace. Of maps with more than `whole` tokens on a side the scene holds
    cells, and exactly those `windows` (site, head, rows, columns) that are named. `pictures` are
    image files by the stream of their patches. Extras belong to the first trace.
    """
    found = []
    for index, trace in enumerate(traces):
        _check(trace)
        extras = (badges or {}, aggregates or {}, windows, pictures or {})
        name = names[index] if index < len(names) else ""
        found.append(_traced(trace, name, whole, *(extras if index == 0 else ({}, {}, (), {}))))
    long = any(site.long for each in found for site in each.sites)
    pairs = align_traces(found[0], found[1]) if len(found) > 1 else None
    return Scene(tuple(found), title, pairs, MORE if long else None)


def _check(trace: Trace) -> None:
    if not trace.maps:
        gaps = "; ".join(f"{gap.site}: {gap.reason}" for gap in trace.gaps)
        raise InputError(
            f"this trace has no maps to draw{f' ({gaps})' if gaps else ''}; watch a model that "
            "attends"
        )
    for each in trace.maps:
        if 0 in each.shape:
            raise InputError(
                f"the map of {each.site!r} has no tokens to draw, its shape is {each.shape}; give "
                "the model a longer text"
            )


def _traced(
    trace: Trace,
    name: str,
    whole: int,
    badges: Badges,
    aggregates: Mapping[str, Tensor | NDArray[Any]],
    windows: Sequence[tuple[str, int, range, range]],
    pictures: Mapping[str, bytes | Path | str],
) -> SceneTrace:
    known = {each.site: each for each in trace.maps}
    for site in [site for site, _ in badges] + [site for site, *_ in windows]:
        if site not in known:
            raise UnknownNameError("attention site", site, known)
    layers: Counter[str] = Counter()
    sites = []
    for each in trace.maps:
        chosen = tuple(
            _window(each, head, rows, columns)
            for site, head, rows, columns in windows
            if site == each.site
        )
        sites.append(_site(each, whole, layers[each.kind], badges, chosen))
        layers[each.kind] += 1
    sites += [_aggregate(trace, *pair, whole) for pair in aggregates.items()]
    streams = {each: TokenStream.of(tokens) for each, tokens in trace.streams.items()}
    images = {each: _picture(trace, each, data) for each, data in pictures.items()}
    return SceneTrace(name, streams, tuple(sites), images, trace.gaps)


def _site(
    each: AttentionMap, whole: int, layer: int, badges: Badges, windows: tuple[Window, ...]
) -> SceneSite:
    texts = tuple(tuple(badges.get((each.site, head), ())) for head in range(each.heads))
    return SceneSite(
        each.site,
        each.kind,
        each.rows,
        each.columns,
        each.heads,
        TraceMaps(each, whole),
        each.produced,
        each.head_numbers,
        texts if any(texts) else None,
        windows,
        layer,
    )


def _window(each: AttentionMap, head: int, rows: range, columns: range) -> Window:
    sizes = each.shape
    inside = 0 <= head < sizes[0]
    for run, size in ((rows, sizes[1]), (columns, sizes[2])):
        inside &= run.step == 1 and 0 <= run.start < run.stop <= size
    if not inside:
        raise InputError(
            f"expected a window within head={sizes[0]} query={sizes[1]} key={sizes[2]} of "
            f"{each.site!r}, got head {head}, {rows}, {columns}; use ranges with a step of one"
        )
    return Window(head, (rows.start, rows.stop), (columns.start, columns.stop))


def _aggregate(trace: Trace, name: str, weights: Tensor | NDArray[Any], whole: int) -> SceneSite:
    """An aggregate has the rows and columns of the first map that is as large."""
    found = torch.as_tensor(weights)
    if found.dim() != 2:
        raise ShapeError(
            f"expected the aggregate {name!r} with the axes (query key), got {tuple(found.shape)}"
        )
    for each in trace.maps:
        if each.site == name:
            raise InputError(f"the aggregate {name!r} is named as a site is; give it another name")
        if each.shape[1:] == tuple(found.shape):
            seen = AttentionMap(name, each.kind, each.rows, each.columns, Dense(found[None]))
            return SceneSite(name, "aggregate", each.rows, each.columns, 1, TraceMaps(seen, whole))
    sizes = sorted({each.shape[1:] for each in trace.maps})
    raise ShapeError(
        f"the aggregate {name!r} has {tuple(found.shape)} rows and columns, and no map of this "
        f"trace has; they have {', '.join(map(str, sizes))}"
    )


def _picture(trace: Trace, stream: str, data: bytes | Path | str) -> Picture:
    if stream not in trace.streams:
        raise UnknownNameError("stream", stream, trace.streams)
    if not isinstance(data, bytes):
        try:
            data = Path(data).read_bytes()
        except OSError as error:
            raise FileError(
                f"cannot read {data!s}: {error.strerror}; give a picture file"
            ) from error
    for magic, kind in _PICTURES.items():
        if data.startswith(magic):
            return Picture(kind, data)
    raise InputError(
        f"expected a picture of {stream!r} as a PNG, JPEG or GIF file, got bytes that begin with "
        f"{data[:8]!r}"
    )


def axis_runs(axis: Axis) -> list[list[int]]:
    """The places of an axis as runs [start, stop)."""
    runs: list[list[int]] = []
    for place in axis.places:
        if runs and runs[-1][1] == place:
            runs[-1][1] += 1
        else:
            runs.append([place, place + 1])
    return runs
