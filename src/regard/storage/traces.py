"""`save_trace` and `load_trace`, by way of a tree of plain data and tensors."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from regard.arguments import check_first_argument
from regard.errors import FileError
from regard.kernels.observe import Atlas, Scoring, Statistics, Top
from regard.masks import restore
from regard.storage.reading import WRITE_AGAIN, read_tree
from regard.storage.writing import write_tree
from regard.types import (
    AttentionMap,
    Axis,
    DenseWeights,
    Gap,
    RecomputableWeights,
    SummaryOnly,
    Tokens,
    Trace,
    WeightSource,
)

Tree = dict[str, Any]
Numbers = TypeVar("Numbers", Statistics, Top, Atlas)

# The keys that maps of format 1 do not have, and the fields that they are in memory. Files of
# format 2 may lack the last of them, which came later.
KEYS_SINCE_FORMAT_2 = {
    "head_numbers": "head_indices",
    "values": "values",
    "gradient": "gradient",
    "output": "output_projection",
}


@check_first_argument
def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace to one file without loss; the file is written as a whole or not at all.

    Tensors are on the CPU when the file is loaded. A tensor that several maps share, such as a
    mask, is stored once.

    >>> import tempfile, torch
    >>> from regard.storage import load_trace, save_trace
    >>> from regard.types import Trace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace = Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
    ...     save_trace(trace, f"{folder}/trace.safetensors")
    ...     load_trace(f"{folder}/trace.safetensors")
    <Trace of tokens (3): 1 map, 1 head>
      <encoder map 'weights': 1 head, 3 tokens rows x 3 tokens columns, dense>
    """
    write_tree(Path(path), trace_to_tree(trace))


@check_first_argument
def load_trace(path: str | os.PathLike[str], *, verify: bool = False) -> Trace:
    """The trace that `save_trace` wrote.

    The header is always checked against its checksum. A file of up to 64 MiB is read as a whole,
    and every tensor in it is checked. A larger file opens at once: its tensors are memory-mapped,
    so the operating system reads a part of them when it is first used. Because none of our code
    runs at that moment, their checksums are compared only with `verify`, which reads the file once
    from end to end.
    """
    try:
        return trace_from_tree(read_tree(Path(path), verify=verify))
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise FileError(
            f"{os.fspath(path)} holds no whole trace: expected its streams, maps and gaps, got a "
            f"header that cannot be one ({error}); {WRITE_AGAIN}"
        ) from error


def trace_to_tree(trace: Trace) -> Tree:
    """The trace as dictionaries, lists, plain values and tensors."""
    return {
        "streams": [
            {"name": name} | _field_values(tokens) for name, tokens in trace.streams.items()
        ],
        "maps": [_map_to_tree(attention_map) for attention_map in trace.maps],
        "gaps": [_field_values(gap) for gap in trace.gaps],
    }


def trace_from_tree(tree: Tree) -> Trace:
    """The trace that `trace_to_tree` described."""
    streams = {stream.pop("name"): Tokens(**_lists_to_tuples(stream)) for stream in tree["streams"]}
    axes: dict[str, Axis] = {}
    maps = tuple(_map_from_tree(map_tree, axes) for map_tree in tree["maps"])
    gaps = tuple(Gap(**gap) for gap in tree["gaps"])
    return Trace(streams, maps, gaps)


def _map_to_tree(attention_map: AttentionMap) -> Tree:
    """A map as plain data and tensors, under the keys of the file format."""
    return {
        "site": attention_map.site,
        "kind": attention_map.kind,
        "rows": _axis_to_tree(attention_map.rows),
        "columns": _axis_to_tree(attention_map.columns),
        "produced": _axis_to_tree(attention_map.produced),
        "source": _source_to_tree(attention_map.source),
        "statistics": _field_values(attention_map.statistics),
        "top": _field_values(attention_map.top),
        "atlas": _field_values(attention_map.atlas),
    } | {key: getattr(attention_map, name) for key, name in KEYS_SINCE_FORMAT_2.items()}


def _map_from_tree(tree: Tree, axes: dict[str, Axis]) -> AttentionMap:
    """The map that `_map_to_tree` described; keys that an older file lacks become None."""
    produced = tree["produced"]
    return AttentionMap(
        tree["site"],
        tree["kind"],
        _axis_from_tree(tree["rows"], axes),
        _axis_from_tree(tree["columns"], axes),
        _source_from_tree(tree["source"]),
        _numbers_from_tree(Statistics, tree["statistics"]),
        _numbers_from_tree(Top, tree["top"]),
        _numbers_from_tree(Atlas, tree["atlas"]),
        None if produced is None else _axis_from_tree(produced, axes),
        **{name: _lists_to_tuples(tree.get(key)) for key, name in KEYS_SINCE_FORMAT_2.items()},
    )


def _source_to_tree(source: WeightSource) -> Tree:
    """A source of weights as plain data and tensors; masks and biases by their own state."""
    tree: Tree = {"kind": source.form} | _field_values(source)
    if isinstance(source, RecomputableWeights):
        scoring = _field_values(source.scoring)
        for name in ("mask", "bias"):
            scoring[name] = None if scoring[name] is None else scoring[name].state()
        tree["scoring"] = scoring
    return tree


def _source_from_tree(tree: Tree) -> WeightSource:
    """The source of weights that `_source_to_tree` described."""
    known = {kind.form: kind for kind in (RecomputableWeights, DenseWeights, SummaryOnly)}
    kind = known[tree["kind"]]
    values = {name: value for name, value in tree.items() if name != "kind"}
    if kind is SummaryOnly:
        return SummaryOnly(_lists_to_tuples(values["sizes"]))
    if kind is RecomputableWeights:
        scoring = dict(values["scoring"])
        for name in ("mask", "bias"):
            scoring[name] = None if scoring[name] is None else restore(scoring[name])
        values["scoring"] = Scoring(**scoring)
    return kind(**values)


def _axis_to_tree(axis: Axis | None) -> Tree | None:
    """The axis with its positions as runs [start, stop]; most axes are a single run."""
    if axis is None:
        return None
    runs: list[list[int]] = []
    for position in axis.positions:
        if runs and runs[-1][1] == position:
            runs[-1][1] += 1
        else:
            runs.append([position, position + 1])
    return {"stream": axis.stream, "runs": runs}


def _axis_from_tree(tree: Tree, axes: dict[str, Axis]) -> Axis:
    """The axis of a tree; maps with equal axes share one object, as axes of long texts are big."""
    key = repr(tree)
    if key not in axes:
        positions = tuple(position for run in tree["runs"] for position in range(*run))
        axes[key] = Axis(tree["stream"], positions)
    return axes[key]


def _field_values(value: Any) -> Any:
    """The fields of a dataclass by name, not recursively; None for None."""
    return None if value is None else {f.name: getattr(value, f.name) for f in fields(value)}


def _numbers_from_tree(kind: type[Numbers], tree: Tree | None) -> Numbers | None:
    """The statistics, top keys or atlas with these fields; None if the map had none."""
    return None if tree is None else kind(**tree)


def _lists_to_tuples(value: Any) -> Any:
    """The value with every list in it as a tuple, as the fields of our values are."""
    if isinstance(value, dict):
        return {name: _lists_to_tuples(item) for name, item in value.items()}
    return tuple(map(_lists_to_tuples, value)) if isinstance(value, list) else value
