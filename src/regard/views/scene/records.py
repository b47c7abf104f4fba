"""The header of a saved scene as types, and a check that its parts fit together.

page/FORMAT.md describes the header. A file may be damaged or come from an untrusted source, so
every index, length and position in it is checked when it is loaded; the blobs are checked when they
are decoded.
"""

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from regard.documents import check_record
from regard.errors import InputError
from regard.types.finding import Severity

__all__ = ["SceneRecord", "check_scene"]

Json = dict[str, Any]


class StreamRecord(TypedDict):
    """The tokens of a stream; `spaced` has a 0 or 1 for each."""

    texts: list[str]
    plain: list[str] | None
    spaced: str
    special: list[int]
    words: list[int]
    sentences: list[int]
    named: bool
    grid: list[int] | None
    marked: NotRequired[list[int]]


class AxisRecord(TypedDict):
    """The positions of an axis as runs [start, stop)."""

    stream: str
    runs: list[list[int]]


class LargestRecord(TypedDict):
    """The largest weights of the cells of a long map."""

    cells: list[int]
    maps: list[int]


class WindowRecord(TypedDict):
    """An exact window of a long map."""

    head: int
    rows: list[int]
    columns: list[int]
    blob: int


class SiteRecord(TypedDict):
    """The maps of a site; numbers that are called a blob, or maps, are indices of blobs."""

    name: str
    kind: Literal["encoder", "decoder", "cross", "aggregate"]
    layer: int | None
    rows: AxisRecord
    columns: AxisRecord
    produced: AxisRecord | None
    heads: int
    numbers: list[int] | None
    badges: list[list[str]] | None
    cells: list[int]
    mended: NotRequired[bool]
    maps: list[int]
    largest: LargestRecord | None
    windows: list[WindowRecord]


class PictureRecord(TypedDict):
    """The image file of a stream of patches."""

    type: str
    blob: int


class GapRecord(TypedDict):
    """A site that could not be captured."""

    site: str
    reason: str


class TraceRecord(TypedDict):
    """A trace of the scene."""

    name: str
    streams: dict[str, StreamRecord]
    sites: list[SiteRecord]
    pictures: dict[str, PictureRecord]
    gaps: list[GapRecord]


class TextRecord(TypedDict):
    """A finding in one language."""

    sentence: str
    meaning: str
    remedy: str


class DrawingRecord(TypedDict):
    """The picture that a finding points to."""

    view: str
    site: str | None
    head: int | None
    rows: list[int]
    columns: list[int]


class FindingRecord(TypedDict):
    """A finding of a report."""

    check: str
    severity: Severity
    value: float | None
    limit: float | None
    said: dict[str, TextRecord]
    site: str | None
    head: int | None
    trace: int
    drawing: DrawingRecord | None
    call: str | None


class SceneRecord(TypedDict):
    """The header of a scene, besides its format and version."""

    title: str
    traces: list[TraceRecord]
    alignments: dict[str, list[list[int]]] | None
    more: str | None
    findings: NotRequired[list[FindingRecord] | None]


def check_scene(header: Any, blobs: int) -> None:
    """Raise an InputError unless a header is that of a scene with this number of blobs."""
    check_record("the scene", header, SceneRecord)
    for groups in (header["alignments"] or {}).values():
        _require(all(len(group) == 4 for group in groups), "an alignment has groups of 4 numbers")
    for trace in header["traces"]:
        streams = trace["streams"]
        for name, stream in streams.items():
            _check_stream(f"the stream {name!r}", stream)
        for name, picture in trace["pictures"].items():
            _require(name in streams, f"the picture {name!r} belongs to a stream")
            _check_indices("a picture", [picture["blob"]], blobs)
        for site in trace["sites"]:
            _check_site(site, {name: len(stream["texts"]) for name, stream in streams.items()})
            _check_blobs(site, blobs)


def _check_stream(owner: str, stream: StreamRecord) -> None:
    """Raise an InputError unless the parts of a stream are as long as its texts."""
    length, plain, grid = len(stream["texts"]), stream["plain"], stream["grid"]
    _require(len(stream["spaced"]) == length, f"{owner} has as many spaces as texts")
    _require(plain is None or len(plain) == length, f"{owner} has as many plain texts as texts")
    for name in ("special", "words", "sentences", "marked"):
        positions: list[int] = stream.get(name, [])  # type: ignore[assignment]
        _check_indices(f"{name} of {owner}", positions, length)
        _require(positions == sorted({*positions}), f"{name} of {owner} are in order")
    first = stream["words"][:1]
    _require(first == [0] * min(1, length), f"the words of {owner} begin with its first text")
    _require(
        grid is None or (len(grid) == 2 and min(grid) > 0 and grid[0] * grid[1] <= length),
        f"the grid of {owner} has at most as many cells as texts",
    )


def _check_site(site: SiteRecord, lengths: dict[str, int]) -> None:
    """Raise an InputError unless a site's axes lie within its streams and its heads agree."""
    owner, heads = f"the site {site['name']!r}", site["heads"]
    rows, columns = (_axis_length(owner, site[side], lengths) for side in ("rows", "columns"))
    if site["produced"] is not None:
        produced = _axis_length(owner, site["produced"], lengths)
        _require(produced == rows, f"{owner} has as many produced tokens as rows")
    _require(min(rows, columns) > 0, f"{owner} has rows and columns")
    _require(len(site["cells"]) == 2 and min(site["cells"]) > 0, f"{owner} has cells of two sides")
    for name in ("maps", "numbers", "badges"):
        parts: Sequence[Any] | None = site[name]
        fits = parts is None or len(parts) == heads
        _require(fits and heads > 0, f"{owner} has {name} for each of its heads")
    largest = site["largest"]
    if largest is not None:
        _require(len(largest["maps"]) == heads, f"{owner} has largest weights of each head")
        sides = zip(largest["cells"], site["cells"], strict=False)
        fits = len(largest["cells"]) == 2 and all(big >= cell for big, cell in sides)
        _require(fits, f"{owner} has cells of largest weights that are not smaller than cells")
    for window in site["windows"]:
        _check_window(owner, window, heads, (rows, columns))


def _check_window(owner: str, window: WindowRecord, heads: int, lengths: tuple[int, int]) -> None:
    """Raise an InputError unless a window lies within its map."""
    _check_indices(f"a window of {owner}", [window["head"]], heads)
    for run, length in zip((window["rows"], window["columns"]), lengths, strict=True):
        fits = len(run) == 2 and 0 <= run[0] < run[1] <= length
        _require(fits, f"{owner} has windows within its map")


def _axis_length(owner: str, axis: AxisRecord, lengths: dict[str, int]) -> int:
    """The number of positions of an axis, which lie within its stream and are each there once."""
    _require(axis["stream"] in lengths, f"{owner} names streams of its trace")
    length, total = lengths[axis["stream"]], 0
    for run in axis["runs"]:
        fits = len(run) == 2 and 0 <= run[0] < run[1] <= length
        _require(fits, f"{owner} has positions within the {length} tokens of {axis['stream']!r}")
        total += run[1] - run[0]
    # A beam may read a token twice, but no axis is much longer than its stream.
    _require(total <= _LONGEST_AXIS * max(1, length), f"{owner} has axes as long as their streams")
    return total


_LONGEST_AXIS = 16


def _check_blobs(site: SiteRecord, blobs: int) -> None:
    """Raise an InputError unless a site refers to blobs that are there."""
    largest = [] if site["largest"] is None else site["largest"]["maps"]
    windows = [window["blob"] for window in site["windows"]]
    _check_indices(f"the site {site['name']!r}", [*site["maps"], *largest, *windows], blobs)


def _check_indices(owner: str, indices: Sequence[int], stop: int) -> None:
    """Raise an InputError unless all indices are from 0 to below `stop`."""
    for index in indices:
        if not 0 <= index < stop:
            raise InputError(f"{owner} has the index {index}, expected 0 to {stop - 1}")


def _require(fits: bool, expected: str) -> None:
    """Raise an InputError that says what was expected, unless it is so."""
    if not fits:
        raise InputError(f"expected that {expected}")
