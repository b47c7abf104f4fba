"""A scene as a JSON header and blobs of bytes, and back; page/FORMAT.md describes both."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from regard.documents import quote_value
from regard.errors import FileError
from regard.types import Axis, Gap
from regard.unicode import cut_text
from regard.views.encoding import SMALL_MAP, CellLevels, byte_levels, encode, encode_by_levels
from regard.views.scene.build import axis_runs
from regard.views.scene.findings import finding_from_json, finding_to_json
from regard.views.scene.maps import Floats, StoredMaps, Window, read_window, thumbnails
from regard.views.scene.records import check_scene
from regard.views.scene.streams import LONGEST_TOKEN, TokenStream
from regard.views.scene.values import Picture, Scene, SceneSite, SceneTrace

FORMAT, VERSION = "regard scene", 1
WEIGHTS_AT_ONCE = 1 << 17  # heads are computed together up to this many weights
WORTH_THREADS = 1 << 19  # weights of all heads from which on a second thread pays
MOST_LARGEST_CELLS = 256  # on a side of a map of largest weights
Json = dict[str, Any]


@dataclass(frozen=True)
class PackedScene:
    """The header of a scene, and the blobs that it refers to by their index."""

    header: Json
    blobs: tuple[bytes, ...]


def pack_scene(scene: Scene) -> PackedScene:
    """The scene as plain data: every head is encoded, as many at a time as there are cores."""
    with _head_workers(scene) as pool:
        packer = _Packer(pool, scene)
        traces = [packer.trace(trace) for trace in scene.traces]
    alignments = None
    if scene.alignments is not None:
        alignments = {"|".join(pair): groups for pair, groups in scene.alignments.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "title": scene.title,
        "traces": traces,
        "alignments": alignments,
        "more": scene.more,
        "findings": None if scene.findings is None else [*map(finding_to_json, scene.findings)],
        "blobs": [len(blob) for blob in packer.blobs],
    }
    return PackedScene(header, tuple(packer.blobs))


def unpack_scene(packed: PackedScene) -> Scene:
    """The scene that was packed; its maps are decoded when they are drawn."""
    header = packed.header
    if not isinstance(header, dict):
        raise FileError(f"expected the header of a scene, got {quote_value(header)}")
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise FileError(
            f"expected a {FORMAT} of version {VERSION}, got {quote_value(header.get('format'))} of "
            f"version {quote_value(header.get('version'))}; save the view again"
        )
    check_scene(header, len(packed.blobs))
    alignments = header["alignments"] and {
        tuple(pair.split("|")): tuple(map(tuple, groups))
        for pair, groups in header["alignments"].items()
    }
    traces = tuple(_trace_from_json(trace, packed.blobs) for trace in header["traces"])
    stored = header.get("findings")
    findings = None if stored is None else tuple(map(finding_from_json, stored))
    return Scene(traces, header["title"], alignments, header["more"], findings)


@contextmanager
def _head_workers(scene: Scene) -> Iterator[Executor]:
    """Threads that each encode one head at a time, with torch on a single thread.

    A head is many small operations, for which torch's own threads would wait more than they work.
    Few small maps are encoded in the calling thread, because starting another would take longer.
    """
    threads = torch.get_num_threads()
    sites = [site for trace in scene.traces for site in trace.sites]
    weights = sum(site.heads * len(site.rows) * len(site.columns) for site in sites)
    try:
        with _thread_pool(threads) if weights >= WORTH_THREADS else _CallingThread() as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)  # each thread has its own setting, but new ones inherit it


def _thread_pool(threads: int) -> Executor:
    """A pool of threads in each of which torch computes on a single thread."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


class _CallingThread(Executor):
    """An executor that runs what is submitted at once, in the calling thread."""

    def __enter__(self) -> "_CallingThread":
        torch.set_num_threads(1)
        return self

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """A future that has its result already."""
        future: Future[Any] = Future()
        future.set_result(work(*args, **kwargs))
        return future


class _Packer:
    """Collects blobs while the header is made."""

    def __init__(self, pool: Executor, scene: Scene) -> None:
        self.blobs: list[bytes] = []
        self.encoded = {
            site: [pool.submit(_encode_heads, site, run) for run in _head_runs(site)]
            for trace in scene.traces
            for site in trace.sites
        }

    def add(self, blob: bytes) -> int:
        """Keep a blob; its index."""
        self.blobs.append(blob)
        return len(self.blobs) - 1

    def trace(self, trace: SceneTrace) -> Json:
        """The header of one trace."""
        pictures = {
            stream: {"type": picture.type, "blob": self.add(picture.data)}
            for stream, picture in trace.pictures.items()
        }
        return {
            "name": trace.name,
            "streams": {name: _stream_to_json(stream) for name, stream in trace.streams.items()},
            "sites": [self.site(site) for site in trace.sites],
            "pictures": pictures,
            "gaps": [{"site": gap.site, "reason": gap.reason} for gap in trace.gaps],
        }

    def site(self, site: SceneSite) -> Json:
        """The header of one site."""
        heads = [head for run in self.encoded[site] for head in run.result()]
        thumbs = _deflate(b"".join(head.thumb for head in heads))
        return {
            "name": site.name,
            "kind": site.kind,
            "layer": site.layer,
            "rows": _axis_to_json(site.rows),
            "columns": _axis_to_json(site.columns),
            "produced": None if site.produced is None else _axis_to_json(site.produced),
            "heads": site.heads,
            "numbers": site.numbers and list(site.numbers),
            "badges": site.badges and [list(badges) for badges in site.badges],
            "cells": list(site.maps.cells),
            "mended": site.maps.mended,
            "maps": [self.add(head.mean) for head in heads],
            "largest": self.largest(site, heads),
            "windows": [self.window(site, window) for window in site.windows],
            "thumbs": {"blob": self.add(thumbs), "size": list(site.thumb)},
        }

    def largest(self, site: SceneSite, heads: Sequence["_EncodedHead"]) -> Json | None:
        """The header of the largest weights of a long map's cells."""
        if not site.long:
            return None
        factor = _largest_cell_factor(site)
        cells = [side * factor for side in site.maps.cells]
        return {"cells": cells, "maps": [self.add(head.largest) for head in heads]}

    def window(self, site: SceneSite, window: Window) -> Json:
        """The header of one exact window of a long map."""
        return {
            "head": window.head,
            "rows": list(window.rows),
            "columns": list(window.columns),
            "blob": self.add(encode(site.maps.window(window)[None])[0]),
        }


@dataclass(frozen=True)
class _EncodedHead:
    """The blobs of one head: means, largest weights of long maps, and levels of its thumbnail."""

    mean: bytes
    largest: bytes
    thumb: bytes


def _head_runs(site: SceneSite) -> list[range]:
    """Heads that are computed together: small maps all at once, large ones one by one."""
    many = max(1, WEIGHTS_AT_ONCE // (len(site.rows) * len(site.columns)))
    starts = range(0, site.heads, many)
    return [range(start, min(start + many, site.heads)) for start in starts]


def _encode_heads(site: SceneSite, heads: range) -> list[_EncodedHead]:
    """The blobs of some heads of a site."""
    means, largest = site.maps.pooled(heads)
    largest_blobs = [b""] * len(heads)
    if means[0].size < SMALL_MAP and not site.long:
        cells = CellLevels.of(means)
        del means, largest  # so that less memory is held while bytes are deflated
        thumbs, blobs = thumbnails(cells.levels, site.thumb), encode_by_levels(cells)
    else:
        thumbs = thumbnails(byte_levels(largest), site.thumb)
        blobs = encode(means, site.maps.log_factors(heads) if means[0].size >= SMALL_MAP else None)
        if site.long:
            largest_blobs = encode(_max_pool(largest, _largest_cell_factor(site)))
    levels = [thumb.tobytes() for thumb in thumbs]
    return [_EncodedHead(*head) for head in zip(blobs, largest_blobs, levels, strict=True)]


def _largest_cell_factor(site: SceneSite) -> int:
    """How many times larger the cells of largest weights are: they take most bytes."""
    longest = max(len(site.rows), len(site.columns))
    return 2 if longest > MOST_LARGEST_CELLS * site.maps.cells[0] else 1


def _max_pool(largest: Floats, side: int) -> Floats:
    """The largest weight of each square of `side` cells."""
    if side == 1:
        return largest
    pooled: Floats = F.max_pool2d(torch.from_numpy(largest), side, ceil_mode=True).numpy()
    return pooled


def _deflate(data: bytes) -> bytes:
    """The bytes as a raw deflate stream (RFC 1951), without the header of zlib or gzip."""
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
    return deflate.compress(data) + deflate.flush()


def _axis_to_json(axis: Axis) -> Json:
    """The stream of an axis and its positions as runs [start, stop)."""
    return {"stream": axis.stream, "runs": axis_runs(axis)}


def _stream_to_json(stream: TokenStream) -> Json:
    """The tokens of one stream as JSON types."""
    return {
        "texts": list(stream.texts),
        "plain": None if stream.plain == stream.texts else list(stream.plain),
        "spaced": "".join("1" if spaced else "0" for spaced in stream.spaced),
        "special": list(stream.special),
        "words": list(stream.words),
        "sentences": list(stream.sentences),
        "named": stream.named,
        "grid": stream.grid and list(stream.grid),
        "marked": list(stream.marked),
    }


def _trace_from_json(state: Json, blobs: Sequence[bytes]) -> SceneTrace:
    """The trace that `_Packer.trace` wrote; its maps stay encoded until they are drawn."""
    return SceneTrace(
        state["name"],
        {name: _stream_from_json(stream) for name, stream in state["streams"].items()},
        tuple(_site_from_json(site, blobs) for site in state["sites"]),
        {
            stream: Picture(picture["type"], blobs[picture["blob"]])
            for stream, picture in state["pictures"].items()
        },
        tuple(Gap(gap["site"], gap["reason"]) for gap in state["gaps"]),
    )


def _stream_from_json(state: Json) -> TokenStream:
    """The tokens that `_stream_to_json` wrote."""
    texts = tuple(cut_text(text, LONGEST_TOKEN) for text in state["texts"])
    plain = state["plain"]
    return TokenStream(
        texts,
        texts if plain is None else tuple(cut_text(text, LONGEST_TOKEN) for text in plain),
        tuple(flag == "1" for flag in state["spaced"]),
        tuple(state["special"]),
        tuple(state["words"]),
        tuple(state["sentences"]),
        state["named"],
        state["grid"] and tuple(state["grid"]),
        tuple(state.get("marked", ())),
    )


def _site_from_json(state: Json, blobs: Sequence[bytes]) -> SceneSite:
    """The site that `_Packer.site` wrote."""
    numbers, badges = state["numbers"], state["badges"]
    return SceneSite(
        state["name"],
        state["kind"],
        _axis_from_json(state["rows"]),
        _axis_from_json(state["columns"]),
        state["heads"],
        StoredMaps(state, blobs),
        None if state["produced"] is None else _axis_from_json(state["produced"]),
        None if numbers is None else tuple(numbers),
        None if badges is None else tuple(map(tuple, badges)),
        tuple(map(read_window, state["windows"])),
        state["layer"],
    )


def _axis_from_json(state: Mapping[str, Any]) -> Axis:
    """The axis that `_axis_to_json` wrote."""
    positions = tuple(position for run in state["runs"] for position in range(*run))
    return Axis(state["stream"], positions)


def packed_thumbnails(packed: PackedScene, site: Json) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The thumbnails of a packed site as levels: head, height, width."""
    data = zlib.decompress(packed.blobs[site["thumbs"]["blob"]], wbits=-15)
    return np.frombuffer(data, np.uint8).reshape(site["heads"], *site["thumbs"]["size"])
