"""What the tree of a trace file must hold, checked before and after a trace is built from it.

Checksums show that a file was not damaged. They do not show that it holds a valid trace, because a
changed file can get new checksums. `check_tree` compares every plain value and
every tensor's axes with its type; `check_map` compares sizes that only fit or do not fit together.
"""

from typing import Any, NotRequired, TypedDict

from jaxtyping import Float
from torch import Tensor

from regard.documents import AnyFloat, check_record
from regard.errors import InputError
from regard.kernels.observe import Atlas, Statistics, Top
from regard.types import AttentionMap, DenseWeights, RecomputableWeights
from regard.types.maps import MapKind

__all__ = ["check_map", "check_tree"]

_LARGEST_OFFSET = 1 << 40  # far more than the tokens that any model reads
_LONGEST_AXIS = 16  # times the length of its stream: a token may stand on an axis more than once
_MOST_CHECKED_KEYS = 1 << 22  # more would read too much of a large file that is only mapped


class StreamRecord(TypedDict):
    """The tokens of a stream."""

    name: str
    texts: list[str]
    ids: list[int] | None
    offsets: list[list[int]] | None
    words: list[int | None] | None
    special: list[bool] | None
    grid: list[int] | None
    named: bool


class AxisRecord(TypedDict):
    """The positions of an axis as runs [start, stop]."""

    stream: str
    runs: list[list[int]]


class GapRecord(TypedDict):
    """A site that could not be captured."""

    site: str
    reason: str


class MapRecord(TypedDict):
    """An attention map; the last four keys came with format 2 and later."""

    site: str
    kind: MapKind
    rows: AxisRecord
    columns: AxisRecord
    produced: AxisRecord | None
    source: dict[str, Any]
    statistics: dict[str, Any] | None
    top: dict[str, Any] | None
    atlas: dict[str, Any] | None
    head_numbers: NotRequired[list[int] | None]
    values: NotRequired[Float[Tensor, "key_head key value_dim"] | None]
    gradient: NotRequired[Float[Tensor, "head query value_dim"] | None]
    output: NotRequired[Float[Tensor, "head value_dim model"] | None]


class TraceRecord(TypedDict):
    """The whole tree."""

    streams: list[StreamRecord]
    maps: list[MapRecord]
    gaps: list[GapRecord]


class ScoringRecord(TypedDict):
    """What a call does to its scores; the cap may be infinite, which is no cap."""

    scale: AnyFloat | None
    mask: dict[str, Any] | None
    bias: dict[str, Any] | None
    offset: int
    softcap: AnyFloat | None
    sink: Float[Tensor, " head"] | None


class RecomputableRecord(TypedDict):
    """Weights that are computed again."""

    query: Float[Tensor, "head query dim"]
    key: Float[Tensor, "key_head key dim"]
    lse: Float[Tensor, "head query"]
    scoring: ScoringRecord
    exact: bool


class SummaryRecord(TypedDict):
    """Weights that were discarded."""

    sizes: list[int]


_SOURCES: dict[str, type] = {
    "recomputable": RecomputableRecord,
    "dense": DenseWeights,
    "summary": SummaryRecord,
}


def check_tree(tree: Any) -> None:
    """Raise an InputError unless a tree has the values of a trace, each of its type."""
    check_record("the trace", tree, TraceRecord)
    lengths = {stream["name"]: len(stream["texts"]) for stream in tree["streams"]}
    for stream in tree["streams"]:
        for name, pairs in (("offsets", stream["offsets"] or []), ("grid", [stream["grid"]])):
            if any(pair is not None and len(pair) != 2 for pair in pairs):
                raise InputError(f"{name} of the stream {stream['name']!r} should be pairs")
    for map_tree in tree["maps"]:
        for axis in (map_tree["rows"], map_tree["columns"], map_tree["produced"]):
            if axis is not None:
                _check_runs(axis, lengths)
        _check_parts(map_tree)


def _check_runs(axis: AxisRecord, lengths: dict[str, int]) -> None:
    """Raise an InputError unless the runs of an axis lie within its stream."""
    length, total = lengths.get(axis["stream"], 0), 0
    for run in axis["runs"]:
        if len(run) != 2 or not 0 <= run[0] < run[1] <= length:
            raise InputError(
                f"an axis of {axis['stream']!r} has the positions {run}, outside of its {length} "
                "tokens"
            )
        total += run[1] - run[0]
    if total > _LONGEST_AXIS * length:
        raise InputError(f"an axis of {axis['stream']!r} has {total:,} positions, far too many")


def _check_parts(map_tree: MapRecord) -> None:
    """Raise an InputError unless the source and the numbers of a map have their own types."""
    owner, source = f"the map of {map_tree['site']!r}", map_tree["source"]
    form = source.get("kind")
    if not isinstance(form, str) or form not in _SOURCES:
        raise InputError(f"{owner} has weights of no known form")
    check_record(owner, source, _SOURCES[form])
    for name, numbers, record_type in (
        ("statistics", map_tree["statistics"], Statistics),
        ("top", map_tree["top"], Top),
        ("atlas", map_tree["atlas"], Atlas),
    ):
        if numbers is not None:
            check_record(f"{name} of {owner}", numbers, record_type)
    if form == "summary":
        sizes = source["sizes"]
        if len(sizes) != 3 or min(sizes) < 0 or sizes[0] > _LARGEST_OFFSET:
            raise InputError(f"{owner} should have three sizes, got {sizes}")
    if form == "recomputable" and abs(source["scoring"]["offset"]) > _LARGEST_OFFSET:
        raise InputError(f"{owner} has the offset {source['scoring']['offset']}, far too large")


def check_map(attention_map: AttentionMap) -> None:
    """Raise an InputError unless the tensors of a map fit its sizes and its keys exist."""
    owner, source = f"the map of {attention_map.site!r}", attention_map.source
    heads, rows, columns = attention_map.shape
    if isinstance(source, RecomputableWeights):
        _check_recomputable(owner, source)
    atlas = attention_map.atlas
    if atlas is not None:
        if min(atlas.rows, atlas.columns) < 1:
            raise InputError(f"{owner} has an atlas with cells of no size")
        shape = (heads, -(-rows // atlas.rows), -(-columns // atlas.columns))
        if {tuple(atlas.mean.shape), tuple(atlas.largest.shape)} != {shape}:
            raise InputError(f"{owner} expected an atlas of shape {shape}")
    for keys in _key_tensors(attention_map):
        if 0 < keys.numel() <= _MOST_CHECKED_KEYS and not -1 <= keys.min() <= keys.max() < columns:
            raise InputError(f"{owner} names a key outside of its {columns} columns")


def _key_tensors(attention_map: AttentionMap) -> list[Tensor]:
    """The tensors of a map that hold the numbers of keys."""
    statistics, top = attention_map.statistics, attention_map.top
    return ([] if statistics is None else [statistics.largest_key]) + (
        [] if top is None else [top.keys]
    )


def _check_recomputable(owner: str, source: RecomputableWeights) -> None:
    """Raise an InputError unless queries, keys, mask, bias and sink fit together."""
    heads, rows, columns = source.sizes
    key_heads, _, dim = source.key.shape
    fits = source.query.shape[2] == dim and source.lse.shape == (heads, rows)
    if not fits or key_heads < min(1, heads) or heads % max(1, key_heads):
        raise InputError(f"{owner} has queries, keys and normalisers that do not fit together")
    sink = source.scoring.sink
    if sink is not None and sink.shape != (heads,):
        raise InputError(f"{owner} expected a sink for each of its {heads} heads")
    for value in (source.scoring.mask, source.scoring.bias):
        if value is not None:
            value.check(1, heads, rows, columns)
