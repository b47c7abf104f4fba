"""Build the scene of one trace or two, and check what the caller adds to it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import FileError, InputError, ShapeError, UnknownNameError
from regard.types import AttentionMap, Axis, DenseWeights, Trace
from regard.unicode import cut_text
from regard.views.kind import EXACT_TOKENS
from regard.views.scene.alignment import align_traces
from regard.views.scene.maps import TraceMaps, Window
from regard.views.scene.streams import TokenStream
from regard.views.scene.values import Picture, Scene, SceneSite, SceneTrace

Badges = Mapping[tuple[str, int], Sequence[str]]
LONGEST_TITLE = 300  # characters of the title of a scene and of the names of its traces
LONGEST_BADGE = 60  # characters of a badge
MORE_CODE = "regard.heatmap(trace, site=…, windows=[(site, head, rows, columns)]).save(…)"
_PICTURE_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


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
    image files by the stream of their patches. All of these belong to the first trace.
    """
    scene_traces = []
    for index, trace in enumerate(traces):
        _check_trace(trace)
        name = cut_text(names[index], LONGEST_TITLE) if index < len(names) else ""
        additions = (badges or {}, aggregates or {}, windows, pictures or {})
        own = additions if index == 0 else ({}, {}, (), {})
        scene_traces.append(_scene_trace(trace, name, whole, *own))
    long = any(site.long for trace in scene_traces for site in trace.sites)
    alignments = align_traces(*scene_traces[:2]) if len(scene_traces) > 1 else None
    shown_title = cut_text(title, LONGEST_TITLE)
    return Scene(tuple(scene_traces), shown_title, alignments, MORE_CODE if long else None)


def mark_tokens(scene: Scene, stream: str, positions: Sequence[int]) -> Scene:
    """The scene with some tokens of a stream of its first trace marked, to be underlined."""
    first, *others = scene.traces
    if stream not in first.streams:
        raise UnknownNameError("stream", stream, first.streams)
    length = len(first.streams[stream])
    for position in positions:
        if not 0 <= position < length:
            raise InputError(f"no token {position} to mark in {stream!r}; it has 0 to {length - 1}")
    marked = replace(first.streams[stream], marked=tuple(sorted({*positions})))
    first = replace(first, streams={**first.streams, stream: marked})
    return replace(scene, traces=(first, *others))


def name_aggregate(scene: Scene, name: str) -> Scene:
    """The scene with a site of its first trace called an aggregate: computed, no attention."""
    first, *others = scene.traces
    sites = tuple(
        replace(site, kind="aggregate") if site.name == name else site for site in first.sites
    )
    return replace(scene, traces=(replace(first, sites=sites), *others))


def _check_trace(trace: Trace) -> None:
    """Refuse a trace without maps, or with an empty one."""
    if not trace.maps:
        gaps = "; ".join(f"{gap.site}: {gap.reason}" for gap in trace.gaps)
        raise InputError(
            f"this trace has no maps to draw{f' ({gaps})' if gaps else ''}; watch a model that "
            "attends"
        )
    for attention_map in trace.maps:
        if 0 in attention_map.shape:
            raise InputError(
                f"the map of {attention_map.site!r} has no tokens to draw, its shape is "
                f"{attention_map.shape}; give the model a longer text"
            )


def _scene_trace(
    trace: Trace,
    name: str,
    whole: int,
    badges: Badges,
    aggregates: Mapping[str, Tensor | NDArray[Any]],
    windows: Sequence[tuple[str, int, range, range]],
    pictures: Mapping[str, bytes | Path | str],
) -> SceneTrace:
    """One trace with its sites, its aggregates and its pictures."""
    known = [attention_map.site for attention_map in trace.maps]
    for site in [site for site, _ in badges] + [site for site, *_ in windows]:
        if site not in known:
            raise UnknownNameError("attention site", site, known)
    layers: Counter[str] = Counter()
    sites = []
    for attention_map in trace.maps:
        own_windows = tuple(
            _checked_window(attention_map, head, rows, columns)
            for site, head, rows, columns in windows
            if site == attention_map.site
        )
        layer = layers[attention_map.kind]
        sites.append(_scene_site(attention_map, whole, layer, badges, own_windows))
        layers[attention_map.kind] += 1
    sites += [_aggregate_site(trace, *pair, whole) for pair in aggregates.items()]
    streams = {name: TokenStream.of(tokens) for name, tokens in trace.streams.items()}
    images = {stream: _read_picture(trace, stream, data) for stream, data in pictures.items()}
    return SceneTrace(name, streams, tuple(sites), images, trace.gaps)


def _scene_site(
    attention_map: AttentionMap,
    whole: int,
    layer: int,
    badges: Badges,
    windows: tuple[Window, ...],
) -> SceneSite:
    """The site of one map."""
    site, heads = attention_map.site, attention_map.heads
    texts = tuple(
        tuple(cut_text(text, LONGEST_BADGE) for text in badges.get((site, head), ()))
        for head in range(heads)
    )
    return SceneSite(
        site,
        attention_map.kind,
        attention_map.rows,
        attention_map.columns,
        heads,
        TraceMaps(attention_map, whole),
        attention_map.produced,
        attention_map.head_indices,
        texts if any(texts) else None,
        windows,
        layer,
    )


def _checked_window(attention_map: AttentionMap, head: int, rows: range, columns: range) -> Window:
    """The window of these ranges, which must lie within the map."""
    heads, *sizes = attention_map.shape
    inside = 0 <= head < heads
    for run, size in zip((rows, columns), sizes, strict=True):
        inside &= run.step == 1 and 0 <= run.start < run.stop <= size
    if not inside:
        raise InputError(
            f"expected a window within head={heads} query={sizes[0]} key={sizes[1]} of "
            f"{attention_map.site!r}, got head {head}, {rows}, {columns}; use ranges with a step "
            "of one"
        )
    return Window(head, (rows.start, rows.stop), (columns.start, columns.stop))


def _aggregate_site(
    trace: Trace, name: str, weights: Tensor | NDArray[Any], whole: int
) -> SceneSite:
    """The site of an aggregate: it has the rows and columns of the first map of its size."""
    tensor = torch.as_tensor(weights)
    if tensor.dim() != 2:
        raise ShapeError(
            f"expected the aggregate {name!r} with the axes (query key), got {tuple(tensor.shape)}"
        )
    for like in trace.maps:
        if like.site == name:
            raise InputError(f"the aggregate {name!r} is named as a site is; give it another name")
        if like.shape[1:] == tuple(tensor.shape):
            source = DenseWeights(tensor[None])
            aggregate = AttentionMap(name, like.kind, like.rows, like.columns, source)
            maps = TraceMaps(aggregate, whole)
            return SceneSite(name, "aggregate", like.rows, like.columns, 1, maps)
    sizes = sorted({attention_map.shape[1:] for attention_map in trace.maps})
    raise ShapeError(
        f"the aggregate {name!r} has {tuple(tensor.shape)} rows and columns, and no map of this "
        f"trace has; they have {', '.join(map(str, sizes))}"
    )


def _read_picture(trace: Trace, stream: str, data: bytes | Path | str) -> Picture:
    """The image of a stream of patches, from its bytes or its file."""
    if stream not in trace.streams:
        raise UnknownNameError("stream", stream, trace.streams)
    if not isinstance(data, bytes):
        try:
            data = Path(data).read_bytes()
        except OSError as error:
            raise FileError(
                f"cannot read {data!s}: {error.strerror}; give a picture file"
            ) from error
    for magic, kind in _PICTURE_TYPES.items():
        if data.startswith(magic):
            return Picture(kind, data)
    raise InputError(
        f"expected a picture of {stream!r} as a PNG, JPEG or GIF file, got bytes that begin with "
        f"{data[:8]!r}"
    )


def axis_runs(axis: Axis) -> list[list[int]]:
    """The positions of an axis as runs [start, stop) of neighbours."""
    runs: list[list[int]] = []
    for position in axis.positions:
        if runs and runs[-1][1] == position:
            runs[-1][1] += 1
        else:
            runs.append([position, position + 1])
    return runs
