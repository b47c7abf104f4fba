"""The numbers of a heatmap: weights, how strongly each is coloured, labels that do not overlap."""

from dataclasses import dataclass

import numpy as np

from regard.views.captions import done_said, join_sentences, place_said, scale_said
from regard.views.numbers.reading import Floats, Label, read
from regard.views.scene import Scene
from regard.views.state import State

FAINTEST = 1e-5  # the weight at which logarithmic colours begin


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells with their weights and shades from 0 to 1, and a caption.

    `cells` are the rows and columns of weights in each cell; with more than one they are means.
    """

    weights: Floats
    shades: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: tuple[int, int]
    caption: str


def grid(scene: Scene, state: State) -> Grid:
    """The heatmap of the state's site and head."""
    site = scene.trace(state.trace).site(state.site)
    found = read(scene, state)
    largest = float(found.weights.max(initial=0))
    said = [
        place_said(site, state.head),
        *done_said(site, state),
        scale_said(state, largest),
    ]
    return Grid(
        found.weights,
        shades(found.weights, state.scale),
        found.rows,
        found.columns,
        site.maps.cells,
        join_sentences(state.language, said),
    )


def shades(weights: Floats, scale: str) -> Floats:
    """How strongly each weight is coloured, from 0 to 1."""
    if scale == "log":
        logs = np.log10(np.maximum(weights, np.float32(FAINTEST)))
        strong: Floats = np.clip(1 + logs / -np.log10(FAINTEST), 0, 1).astype(np.float32)
        return strong
    largest = weights.max(axis=1 if scale == "row" else None, keepdims=True, initial=0)
    found: Floats = np.divide(weights, largest, out=np.zeros_like(weights), where=largest > 0)
    return found.clip(0, 1)


def ticks(count: int, most: int) -> tuple[int, ...]:
    """Which of `count` labels to write if there is room for `most`: every 1st, 2nd, 5th, 10th ….

    >>> from regard.views.numbers.grid import ticks
    >>> ticks(4, 10), ticks(12, 5)
    ((0, 1, 2, 3), (0, 5, 10))
    """
    step, factors = 1, (2, 2.5, 2)
    turn = 0
    while -(-count // step) > max(1, most):
        step = int(step * factors[turn % 3])
        turn += 1
    return tuple(range(0, count, step))
