"""A scene as a JSON header and blobs, and back; FORMAT.md in the page's folder says how."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from regard.errors import FileError
from regard.types import Axis, Gap
from regard.views.encoding import SMALL, Cells, by_level, byte_levels, encode
from regard.views.scene.build import axis_runs
from regard.views.scene.findings import packed_finding, unpacked_finding
from regard.views.scene.maps import Floats, StoredMaps, Window, thumbnails
from regard.views.scene.streams import TokenStream
from regard.views.scene.values import Picture, Scene, SceneSite, SceneTrace

FORMAT, VERSION = "regard scene", 1
TOGETHER = 1 << 17  # weights of heads that are computed at once
MANY = 1 << 19  # weights of all heads that are worth a second thread
DETAIL = 256  # cells on a side of a map of largest weights
Json = dict[str, Any]


@dataclass(frozen=True)
class PackedScene:
    """The header of a scene, and the blobs that it names by their places."""

    header: Json
    blobs: tuple[bytes, ...]


def pack_scene(scene: Scene) -> PackedScene:
    """The scene as plain data: every head is coded, as many at a time as there are cores."""
    with _workers(scene) as pool:
        packing = _Packing(pool, scene)
        traces = [packing.traced(each) for each in scene.traces]
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
        "findings": None if scene.findings is None else [*map(packed_finding, scene.findings)],
        "blobs": [len(blob) for blob in packing.blobs],
    }
    return PackedScene(header, tuple(packing.blobs))


def unpack_scene(packed: PackedScene) -> Scene:
    """The scene that was packed; its maps are decoded when they are looked at."""
    header = packed.header
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise FileError(
            f"expected a {FORMAT} of version {VERSION}, got {header.get('format')!r} of version "
            f"{header.get('version')!r}; save the view again"
        )
    alignments = header["alignments"] and {
        tuple(pair.split("|")): tuple(map(tuple, groups))
        for pair, groups in header["alignments"].items()
    }
    traces = tuple(_unpacked_trace(each, packed.blobs) for each in header["traces"])
    said = header.get("findings")
    findings = None if said is None else tuple(map(unpacked_finding, said))
    return Scene(traces, header["title"], alignments, header["more"], findings)


@contextmanager
def _workers(scene: Scene) -> Iterator[Executor]:
    """Threads in which torch computes alone: it is heads that are done side by side.

    A head is many small steps, and a team of threads for each would wait more than it works. Of
    few small maps there is so little to do that even a second thread would only be waited for.
    """
    usual = torch.get_num_threads()
    sites = [site for each in scene.traces for site in each.sites]
    large = sum(site.heads * len(site.rows) * len(site.columns) for site in sites) >= MANY
    try:
        with _team(usual) if large else _Here() as pool:
            yield pool
    finally:
        torch.set_num_threads(usual)  # the setting is each thread's own, but new ones inherit it


def _team(threads: int) -> Executor:
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


class _Here(Executor):
    """Does at once, in the thread that asks, what it is given."""

    def __enter__(self) -> "_Here":
        torch.set_num_threads(1)
        return self

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """The result of the work, done already."""
        done: Future[Any] = Future()
        done.set_result(work(*given, **named))
        return done


class _Packing:
    """Collects blobs while the header is made."""

    def __init__(self, pool: Executor, scene: Scene) -> None:
        self.blobs: list[bytes] = []
        self.coded = {
            site: [pool.submit(_coded, site, run) for run in _runs(site)]
            for each in scene.traces
            for site in each.sites
        }

    def add(self, blob: bytes) -> int:
        self.blobs.append(blob)
        return len(self.blobs) - 1

    def traced(self, each: SceneTrace) -> Json:
        pictures = {
            stream: {"type": picture.type, "blob": self.add(picture.data)}
            for stream, picture in each.pictures.items()
        }
        return {
            "name": each.name,
            "streams": {name: _stream(stream) for name, stream in each.streams.items()},
            "sites": [self.site(site) for site in each.sites],
            "pictures": pictures,
            "gaps": [{"site": gap.site, "reason": gap.reason} for gap in each.gaps],
        }

    def site(self, site: SceneSite) -> Json:
        heads = [each for run in self.coded[site] for each in run.result()]
        thumbs = _deflated(b"".join(each.thumb for each in heads))
        return {
            "name": site.name,
            "kind": site.kind,
            "layer": site.layer,
            "rows": _axis(site.rows),
            "columns": _axis(site.columns),
            "produced": None if site.produced is None else _axis(site.produced),
            "heads": site.heads,
            "numbers": site.numbers and list(site.numbers),
            "badges": site.badges and [list(each) for each in site.badges],
            "cells": list(site.maps.cells),
            "mended": site.maps.mended,
            "maps": [self.add(each.mean) for each in heads],
            "largest": self.largest(site, heads),
            "windows": [self.window(site, each) for each in site.windows],
            "thumbs": {"blob": self.add(thumbs), "size": list(site.thumb)},
        }

    def largest(self, site: SceneSite, heads: Sequence["_Coded"]) -> Json | None:
        if not site.long:
            return None
        side = _joined_cells(site)
        cells = [each * side for each in site.maps.cells]
        return {"cells": cells, "maps": [self.add(each.largest) for each in heads]}

    def window(self, site: SceneSite, window: Window) -> Json:
        return {
            "head": window.head,
            "rows": list(window.rows),
            "columns": list(window.columns),
            "blob": self.add(encode(site.maps.window(window)[None])[0]),
        }


@dataclass(frozen=True)
class _Coded:
    mean: bytes
    largest: bytes
    thumb: bytes


def _runs(site: SceneSite) -> list[range]:
    """Heads that are computed together: small maps all at once, large ones one by one."""
    many = max(1, TOGETHER // (len(site.rows) * len(site.columns)))
    starts = range(0, site.heads, many)
    return [range(start, min(start + many, site.heads)) for start in starts]


def _coded(site: SceneSite, heads: range) -> list[_Coded]:
    means, largest = site.maps.pooled(heads)
    others = [b""] * len(heads)
    if means[0].size < SMALL and not site.long:
        cells = Cells.of(means)
        del means, largest  # so that less is held while bytes are deflated
        thumbs, coded = thumbnails(cells.levels, site.thumb), by_level(cells)
    else:
        thumbs = thumbnails(byte_levels(largest), site.thumb)
        coded = encode(means, site.maps.scores(heads) if means[0].size >= SMALL else None)
        others = encode(_coarser(largest, _joined_cells(site))) if site.long else others
    small = [thumb.tobytes() for thumb in thumbs]
    return [_Coded(*each) for each in zip(coded, others, small, strict=True)]


def _joined_cells(site: SceneSite) -> int:
    """How many cells on a side the largest weights are of: they cost most, and need less detail."""
    return 2 if max(len(site.rows), len(site.columns)) > DETAIL * site.maps.cells[0] else 1


def _coarser(largest: Floats, side: int) -> Floats:
    if side == 1:
        return largest
    found: Floats = F.max_pool2d(torch.from_numpy(largest), side, ceil_mode=True).numpy()
    return found


def _deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
    return deflate.compress(data) + deflate.flush()


def _axis(axis: Axis) -> Json:
    return {"stream": axis.stream, "runs": axis_runs(axis)}


def _stream(stream: TokenStream) -> Json:
    return {
        "texts": list(stream.texts),
        "plain": None if stream.plain == stream.texts else list(stream.plain),
        "spaced": "".join("1" if each else "0" for each in stream.spaced),
        "special": list(stream.special),
        "words": list(stream.words),
        "sentences": list(stream.sentences),
        "named": stream.named,
        "grid": stream.grid and list(stream.grid),
    }


def _unpacked_trace(state: Json, blobs: Sequence[bytes]) -> SceneTrace:
    return SceneTrace(
        state["name"],
        {name: _unpacked_stream(each) for name, each in state["streams"].items()},
        tuple(_unpacked_site(each, blobs) for each in state["sites"]),
        {
            stream: Picture(each["type"], blobs[each["blob"]])
            for stream, each in state["pictures"].items()
        },
        tuple(Gap(each["site"], each["reason"]) for each in state["gaps"]),
    )


def _unpacked_stream(state: Json) -> TokenStream:
    texts = tuple(state["texts"])
    return TokenStream(
        texts,
        texts if state["plain"] is None else tuple(state["plain"]),
        tuple(each == "1" for each in state["spaced"]),
        tuple(state["special"]),
        tuple(state["words"]),
        tuple(state["sentences"]),
        state["named"],
        state["grid"] and tuple(state["grid"]),
    )


def _unpacked_site(state: Json, blobs: Sequence[bytes]) -> SceneSite:
    numbers, badges = state["numbers"], state["badges"]
    return SceneSite(
        state["name"],
        state["kind"],
        _unpacked_axis(state["rows"]),
        _unpacked_axis(state["columns"]),
        state["heads"],
        StoredMaps(state, blobs),
        None if state["produced"] is None else _unpacked_axis(state["produced"]),
        None if numbers is None else tuple(numbers),
        None if badges is None else tuple(map(tuple, badges)),
        tuple(
            Window(each["head"], tuple(each["rows"]), tuple(each["columns"]))
            for each in state["windows"]
        ),
        state["layer"],
    )


def _unpacked_axis(state: Mapping[str, Any]) -> Axis:
    places = tuple(place for run in state["runs"] for place in range(*run))
    return Axis(state["stream"], places)


def thumbs_of(packed: PackedScene, site: Json) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The thumbnails of a packed site as levels: head, height, width."""
    data = zlib.decompress(packed.blobs[site["thumbs"]["blob"]], wbits=-15)
    return np.frombuffer(data, np.uint8).reshape(site["heads"], *site["thumbs"]["size"])
