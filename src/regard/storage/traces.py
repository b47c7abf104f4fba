"""A trace as a tree of plain data and tensors, and back."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import FileError
from regard.kernels.observe import Atlas, Scoring, Statistics, Top
from regard.masks import restore
from regard.storage.reading import AGAIN, read
from regard.storage.writing import write
from regard.types import (
    AttentionMap,
    Axis,
    Dense,
    Gap,
    Recomputable,
    Source,
    Summary,
    Tokens,
    Trace,
)

State = dict[str, Any]
N = TypeVar("N", Statistics, Top, Atlas)

# what maps of format 1 do not have; readers of format 2 may leave the last of them out
SINCE_2 = ("head_numbers", "values", "gradient", "output")


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace to one file, exactly, whole or not at all.

    Tensors come back on the CPU. What maps share, such as a mask, is stored once.

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
    write(Path(path), described(trace))


def load_trace(path: str | os.PathLike[str], *, verify: bool = False) -> Trace:
    """The trace that `save_trace` wrote.

    The header is always checked against its checksum. A file of up to 64 MiB is read whole, and
    every tensor in it checked. A larger one opens at once: its tensors are mapped, and the system
    reads what is used of them when it is used. No code of ours runs at that moment, so their
    checksums are compared only with `verify`, which reads the file once from end to end.
    """
    try:
        return rebuilt(read(Path(path), verify=verify))
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise FileError(
            f"{os.fspath(path)} holds no whole trace: expected its streams, maps and gaps, got a "
            f"header that cannot be one ({error}); {AGAIN}"
        ) from error


def described(trace: Trace) -> State:
    """The trace as dictionaries, lists, plain values and tensors."""
    # The default site came later than format 2. Readers of format 2 skip keys that they do not
    # know, so it needs no new version; it is left out where there is none, as in older files.
    default_site = {} if trace.default_site is None else {"default_site": trace.default_site}
    return {
        "streams": [{"name": name} | _parts(each) for name, each in trace.streams.items()],
        "maps": [_described_map(each) for each in trace.maps],
        "gaps": [_parts(gap) for gap in trace.gaps],
    } | default_site


def rebuilt(state: State) -> Trace:
    """The trace that was described."""
    streams = {each.pop("name"): Tokens(**_tuples(each)) for each in state["streams"]}
    axes: dict[str, Axis] = {}
    maps = tuple(_rebuilt_map(each, axes) for each in state["maps"])
    gaps = tuple(Gap(**gap) for gap in state["gaps"])
    return Trace(streams, maps, gaps, state.get("default_site"))


def _described_map(each: AttentionMap) -> State:
    return {
        "site": each.site,
        "kind": each.kind,
        "rows": _described_axis(each.rows),
        "columns": _described_axis(each.columns),
        "produced": _described_axis(each.produced),
        "source": _described_source(each.source),
        "statistics": _parts(each.statistics),
        "top": _parts(each.top),
        "atlas": _parts(each.atlas),
        "head_numbers": each.head_numbers,
        "values": each.values,
        "gradient": each.gradient,
        "output": each.output,
    }


def _rebuilt_map(state: State, axes: dict[str, Axis]) -> AttentionMap:
    produced = state["produced"]
    return AttentionMap(
        state["site"],
        state["kind"],
        _rebuilt_axis(state["rows"], axes),
        _rebuilt_axis(state["columns"], axes),
        _rebuilt_source(state["source"]),
        _whole(Statistics, state["statistics"]),
        _whole(Top, state["top"]),
        _whole(Atlas, state["atlas"]),
        None if produced is None else _rebuilt_axis(produced, axes),
        **{name: _tuples(state.get(name)) for name in SINCE_2},
    )


def _described_source(source: Source) -> State:
    state: State = {"kind": type(source).__name__.lower()} | _parts(source)
    if isinstance(source, Recomputable):
        scoring = _parts(source.scoring)
        for name in ("mask", "bias"):
            scoring[name] = None if scoring[name] is None else scoring[name].state()
        state["scoring"] = scoring
    return state


def _rebuilt_source(state: State) -> Source:
    kind = {each.__name__.lower(): each for each in (Recomputable, Dense, Summary)}[state["kind"]]
    parts = {name: part for name, part in state.items() if name != "kind"}
    if kind is Summary:
        return Summary(_tuples(parts["sizes"]))
    if kind is Recomputable:
        scoring = dict(parts["scoring"])
        for name in ("mask", "bias"):
            scoring[name] = None if scoring[name] is None else restore(scoring[name])
        parts["scoring"] = Scoring(**scoring)
    return kind(**parts)


def _described_axis(axis: Axis | None) -> State | None:
    """Places are stored as runs: most axes are a single one."""
    if axis is None:
        return None
    runs: list[list[int]] = []
    for place in axis.places:
        if runs and runs[-1][1] == place:
            runs[-1][1] += 1
        else:
            runs.append([place, place + 1])
    return {"stream": axis.stream, "runs": runs}


def _rebuilt_axis(state: State, axes: dict[str, Axis]) -> Axis:
    """The axis; maps of one stream share theirs, which are long."""
    key = repr(state)
    if key not in axes:
        places = tuple(place for run in state["runs"] for place in range(*run))
        axes[key] = Axis(state["stream"], places)
    return axes[key]


def _parts(value: Any) -> Any:
    """The fields of a value by name."""
    return None if value is None else {p.name: getattr(value, p.name) for p in fields(value)}


def _whole(kind: type[N], state: State | None) -> N | None:
    return None if state is None else kind(**state)


def _tuples(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _tuples(each) for name, each in part.items()}
    return tuple(map(_tuples, part)) if isinstance(part, list) else part
