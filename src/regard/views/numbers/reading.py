"""The map that a state looks at: without what is hidden, by pieces, words or sentences."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.types import Axis
from regard.views.captions import label_of
from regard.views.scene import Scene, Site, Stream, Traced
from regard.views.state import State

Floats = NDArray[np.float32]

LEFT = 1e-9  # a row of which less is left is not renormalised


@dataclass(frozen=True)
class Label:
    """What a row or a column is called, and which rows or columns of the map it stands for."""

    text: str
    start: int
    stop: int
    special: bool = False


@dataclass(frozen=True, eq=False)
class Reading:
    """A map as it is looked at, with what its rows and columns are called."""

    weights: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]


def read(scene: Scene, state: State) -> Reading:
    """The map of the state's site and head, hidden tokens left out, by its unit."""
    traced = scene.trace(state.trace)
    site = traced.site(state.site)
    weights = scene.weights(state.trace, state.site, state.head)
    if site.long:
        sides = zip((site.rows, site.columns), site.maps.cells, strict=True)
        rows, columns = (cells(traced.streams[axis.stream], axis, side) for axis, side in sides)
        return Reading(weights, rows, columns)
    rows, columns = row_labels(traced, site, state), column_labels(traced, site, state)
    return Reading(joined(weights, rows, columns, renormalised=bool(state.hide)), rows, columns)


def row_labels(traced: Traced, site: Site, state: State) -> tuple[Label, ...]:
    """What the rows are called: by what they read or produced; special ones may be hidden."""
    axis = site.produced if label_of(site, state) == "produced" else site.rows
    assert axis is not None
    same = site.rows.stream == site.columns.stream
    hidden = _special(traced, site.rows) if same and "special" in state.hide else frozenset()
    return _labels(traced.streams[axis.stream], axis, state.unit, hidden)


def column_labels(traced: Traced, site: Site, state: State) -> tuple[Label, ...]:
    """What the columns are called, without those that are hidden."""
    axis = site.columns
    hidden = _special(traced, axis) if "special" in state.hide else frozenset()
    if "first" in state.hide:
        hidden |= {index for index, place in enumerate(axis.places) if place == 0}
    found = _labels(traced.streams[axis.stream], axis, state.unit, hidden)
    if not found:
        raise InputError(
            f"no column of {site.name!r} is left when {' and '.join(state.hide)} tokens are "
            "hidden; hide less"
        )
    return found


def joined(
    weights: Floats, rows: tuple[Label, ...], columns: tuple[Label, ...], *, renormalised: bool
) -> Floats:
    """Weights summed over the columns of each label and averaged over its rows."""
    height, width = weights.shape
    if not renormalised and (len(rows), len(columns)) == (height, width):
        return weights
    shown = _inside(columns, width)
    kept = weights.astype(np.float64) * shown
    if renormalised:
        left = kept.sum(1, keepdims=True)
        kept = np.divide(kept, left, out=np.zeros_like(kept), where=left >= LEFT)
    kept = np.add.reduceat(kept, [each.start for each in columns], axis=1)
    if not rows:
        return np.zeros((0, len(columns)), np.float32)
    kept = kept * _inside(rows, height)[:, None]
    kept = np.add.reduceat(kept, [each.start for each in rows], axis=0)
    lengths = np.array([each.stop - each.start for each in rows])
    found: Floats = (kept / lengths[:, None]).astype(np.float32)
    return found


def cells(stream: Stream, axis: Axis, side: int) -> tuple[Label, ...]:
    """Cells of a long axis, each called by its first token."""
    found = []
    for start in range(0, len(axis), side):
        stop = min(start + side, len(axis))
        found.append(Label(stream.texts[axis.places[start]], start, stop))
    return tuple(found)


def _labels(stream: Stream, axis: Axis, unit: str, hidden: frozenset[int]) -> tuple[Label, ...]:
    """Neighbours of one unit together; hidden rows or columns are in none."""
    starts, special = stream.starts(unit), {*stream.special}
    found: list[Label] = []
    run: list[int] = []
    units = [bisect_right(starts, place) for place in axis.places]
    for index, number in enumerate([*units, -1]):
        if run and (number != units[run[-1]] or index in hidden):
            places = [axis.places[each] for each in run]
            text = _text(stream, unit, places)
            found.append(Label(text, run[0], run[-1] + 1, places[0] in special))
            run = []
        if number >= 0 and index not in hidden:
            run.append(index)
    return tuple(found)


def _text(stream: Stream, unit: str, places: list[int]) -> str:
    return stream.unit_text(unit, min(places), max(places) + 1)


def _special(traced: Traced, axis: Axis) -> frozenset[int]:
    special = {*traced.streams[axis.stream].special}
    return frozenset(index for index, place in enumerate(axis.places) if place in special)


def _inside(labels: tuple[Label, ...], length: int) -> NDArray[np.bool_]:
    inside = np.zeros(length, bool)
    for each in labels:
        inside[each.start : each.stop] = True
    return inside
