"""The map that a state shows: its weights, what its rows and columns are called, and its shades.

Every kind of picture starts here. `labelled_map(scene, state)` takes the weights of one head (or
their mean), leaves out hidden tokens, joins pieces to words or sentences, and labels what is left.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.types import Axis
from regard.unicode import cut_text
from regard.views.captions import row_naming
from regard.views.scene import Scene, SceneSite, SceneTrace, TokenStream
from regard.views.state import ViewState

Floats = NDArray[np.float32]

LEAST_SUM = 1e-9  # a row whose visible weights sum to less is not renormalised
LONGEST_LABEL = 120  # characters of a label; a word or sentence may have many more
FAINTEST = 1e-5  # the weight at which logarithmic colours begin


@dataclass(frozen=True)
class Label:
    """The text of a row or column, and the rows or columns [start, stop) that it stands for."""

    text: str
    start: int
    stop: int
    special: bool = False


@dataclass(frozen=True, eq=False)
class LabelledMap:
    """Weights (query key) with a label for each row and each column."""

    weights: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]


def labelled_map(scene: Scene, state: ViewState) -> LabelledMap:
    """The map of the state's site and head, without hidden tokens, by pieces, words or sentences.

    A long map is shown in cells of several tokens, which can be neither hidden nor joined.
    """
    trace = scene.trace(state.trace)
    site = trace.site(state.site)
    weights = scene.weights(state.trace, state.site, state.head)
    if site.long:
        sides = zip((site.rows, site.columns), site.maps.cells, strict=True)
        rows, columns = (
            cell_labels(trace.streams[axis.stream], axis, side) for axis, side in sides
        )
        return LabelledMap(weights, rows, columns)
    rows, columns = row_labels(trace, site, state), column_labels(trace, site, state)
    pooled = pool_weights(weights, rows, columns, renormalise=bool(state.hide))
    return LabelledMap(pooled, rows, columns)


def row_labels(trace: SceneTrace, site: SceneSite, state: ViewState) -> tuple[Label, ...]:
    """The labels of the rows: the tokens that were read, or those that were produced."""
    axis = site.produced if row_naming(site, state) == "produced" else site.rows
    assert axis is not None
    # Rows of another stream, such as a translation, keep their special tokens.
    same = site.rows.stream == site.columns.stream
    hidden = _special_positions(trace, site.rows) if same and "special" in state.hide else None
    return _unit_labels(trace.streams[axis.stream], axis, state.unit, hidden or frozenset())


def column_labels(trace: SceneTrace, site: SceneSite, state: ViewState) -> tuple[Label, ...]:
    """The labels of the columns that are not hidden."""
    axis = site.columns
    hidden = _special_positions(trace, axis) if "special" in state.hide else frozenset()
    if "first" in state.hide:
        hidden |= {index for index, position in enumerate(axis.positions) if position == 0}
    labels = _unit_labels(trace.streams[axis.stream], axis, state.unit, hidden)
    if not labels:
        raise InputError(
            f"no column of {site.name!r} is left when {' and '.join(state.hide)} tokens are "
            "hidden; hide less"
        )
    return labels


def pool_weights(
    weights: Floats, rows: tuple[Label, ...], columns: tuple[Label, ...], *, renormalise: bool
) -> Floats:
    """Weights summed over the columns of each label and averaged over its rows."""
    height, width = weights.shape
    if not renormalise and (len(rows), len(columns)) == (height, width):
        return weights
    pooled = weights.astype(np.float64) * _label_mask(columns, width)
    if renormalise:
        sums = pooled.sum(1, keepdims=True)
        pooled = np.divide(pooled, sums, out=np.zeros_like(pooled), where=sums >= LEAST_SUM)
    # reduceat sums up to the next label's start: what lies between two labels is zero by now.
    pooled = np.add.reduceat(pooled, [label.start for label in columns], axis=1)
    if not rows:
        return np.zeros((0, len(columns)), np.float32)
    pooled = pooled * _label_mask(rows, height)[:, None]
    pooled = np.add.reduceat(pooled, [label.start for label in rows], axis=0)
    lengths = np.array([label.stop - label.start for label in rows])
    means: Floats = (pooled / lengths[:, None]).astype(np.float32)
    return means


def cell_labels(stream: TokenStream, axis: Axis, side: int) -> tuple[Label, ...]:
    """The labels of a long axis: one for each cell of `side` tokens, named by its first token."""
    labels = []
    for start in range(0, len(axis), side):
        stop = min(start + side, len(axis))
        text = cut_text(stream.texts[axis.positions[start]], LONGEST_LABEL)
        labels.append(Label(text, start, stop))
    return tuple(labels)


def label_at(labels: tuple[Label, ...], position: int, site: str, axis: str) -> int:
    """The index of the label that covers a row or column of the map."""
    for index, label in enumerate(labels):
        if label.start <= position < label.stop:
            return index
    stop = labels[-1].stop if labels else 0
    raise InputError(
        f"no {axis} {position} is shown of {site!r}; it has 0 to {stop - 1}, and some may be hidden"
    )


def sites_alike(scene: Scene, trace: int, site: SceneSite) -> tuple[SceneSite, ...]:
    """The sites of the same kind, rows and columns as this one, in the order of the layers."""
    return tuple(
        other
        for other in scene.trace(trace).sites
        if (other.kind, other.rows, other.columns) == (site.kind, site.rows, site.columns)
    )


def shade_weights(weights: Floats, scale: str) -> Floats:
    """How strongly each weight is coloured, from 0 to 1, by a linear, log or row scale."""
    if scale == "log":
        logs = np.log10(np.maximum(weights, np.float32(FAINTEST)))
        log_shades: Floats = np.clip(1 + logs / -np.log10(FAINTEST), 0, 1).astype(np.float32)
        return log_shades
    largest = weights.max(axis=1 if scale == "row" else None, keepdims=True, initial=0)
    shades: Floats = np.divide(weights, largest, out=np.zeros_like(weights), where=largest > 0)
    return shades.clip(0, 1)


def ticks(count: int, most: int) -> tuple[int, ...]:
    """Which of `count` labels to write if there is room for `most`: every 1st, 2nd, 5th, 10th ….

    >>> from regard.views.labelled_map import ticks
    >>> ticks(4, 10), ticks(12, 5)
    ((0, 1, 2, 3), (0, 5, 10))
    """
    step, factors = 1, cycle((2, 2.5, 2))  # 1, 2, 5, 10, 20, 50 ...
    while -(-count // step) > max(1, most):
        step = int(step * next(factors))
    return tuple(range(0, count, step))


def _unit_labels(
    stream: TokenStream, axis: Axis, unit: str, hidden: frozenset[int]
) -> tuple[Label, ...]:
    """One label for each run of neighbours that belong to one unit; hidden tokens have none."""
    starts, special = stream.starts(unit), {*stream.special}
    labels: list[Label] = []
    run: list[int] = []
    units = [bisect_right(starts, position) for position in axis.positions]
    for index, number in enumerate([*units, -1]):  # -1 closes the last run
        if run and (number != units[run[-1]] or index in hidden):
            positions = [axis.positions[member] for member in run]
            text = stream.unit_text(unit, min(positions), max(positions) + 1)
            text = cut_text(text, LONGEST_LABEL)
            labels.append(Label(text, run[0], run[-1] + 1, positions[0] in special))
            run = []
        if number >= 0 and index not in hidden:
            run.append(index)
    return tuple(labels)


def _special_positions(trace: SceneTrace, axis: Axis) -> frozenset[int]:
    """The rows or columns of an axis that are special tokens."""
    special = {*trace.streams[axis.stream].special}
    return frozenset(index for index, position in enumerate(axis.positions) if position in special)


def _label_mask(labels: tuple[Label, ...], length: int) -> NDArray[np.bool_]:
    """A mask of the rows or columns that some label stands for."""
    mask = np.zeros(length, bool)
    for label in labels:
        mask[label.start : label.stop] = True
    return mask
