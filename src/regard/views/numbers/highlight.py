"""The numbers of highlighted text: how much each piece, word or sentence was looked at."""

from dataclasses import dataclass, replace

import numpy as np

from regard.errors import InputError
from regard.views.captions import Sentence, done_said, join_sentences, place_said, scale_said
from regard.views.numbers.grid import shades
from regard.views.numbers.reading import Floats, Label, Reading, read
from regard.views.scene import Scene, Site
from regard.views.state import State

TOP = 8


@dataclass(frozen=True)
class Shade:
    """One unit of the text, its weight, and how strongly it is shaded."""

    text: str
    spaced: bool
    weight: float
    shade: float
    start: int
    stop: int


@dataclass(frozen=True)
class Shades:
    """A text with its shades, the units of most weight in falling order, and a caption."""

    stream: str
    words: tuple[Shade, ...]
    top: tuple[tuple[str, float], ...]
    caption: str


def highlights(scene: Scene, state: State) -> Shades:
    """The text of the columns shaded by what a row looked at, or by all rows on average.

    With the axis "column" it is the text of the rows, shaded by how much they looked at it.
    """
    site = scene.trace(state.trace).site(state.site)
    if site.long:
        raise InputError(
            f"the map of {site.name!r} is too long for highlighted text; show a part of it with "
            "trace.part(stream, start, stop)"
        )
    found = _deep(scene, state, site)
    weights, line_said = _line(found, site, state)
    axis = site.columns if state.axis == "row" else site.rows
    labels = found.columns if state.axis == "row" else found.rows
    strong = shades(weights[None], state.scale)[0]
    stream = scene.trace(state.trace).streams[axis.stream]
    words = [
        Shade(
            stream.text(axis.places[each.start], axis.places[each.stop - 1] + 1),
            stream.spaced[axis.places[each.start]],
            float(weight),
            float(shade),
            each.start,
            each.stop,
        )
        for each, weight, shade in zip(labels, weights, strong, strict=True)
    ]
    order = np.argsort(-weights, kind="stable")[:TOP]
    top = tuple((labels[index].text, float(weights[index])) for index in order if weights[index])
    said = [_depth_said(scene, state, site), line_said, *done_said(site, state)]
    said.append(scale_said(state, float(weights.max(initial=0))))
    return Shades(axis.stream, tuple(words), top, join_sentences(state.language, said))


def _deep(scene: Scene, state: State, site: Site) -> Reading:
    """The map of the head, of the layer, or of all layers that have the same rows and columns."""
    if state.depth == "head":
        return read(scene, state)
    if state.depth == "layer":
        return read(scene, replace(state, head=None))
    readings = [
        read(scene, replace(state, site=each.name, head=None))
        for each in alike(scene, state.trace, site)
    ]
    weights = np.stack([each.weights for each in readings]).mean(0, dtype=np.float64)
    return replace(readings[0], weights=weights.astype(np.float32))


def alike(scene: Scene, trace: int, site: Site) -> tuple[Site, ...]:
    """The sites of one kind that look from the same rows at the same columns, in their order."""
    return tuple(
        each
        for each in scene.trace(trace).sites
        if (each.kind, each.rows, each.columns) == (site.kind, site.rows, site.columns)
    )


def _line(found: Reading, site: Site, state: State) -> tuple[Floats, Sentence]:
    """One row or column of the map, or the mean of all rows, and what it is."""
    if state.place is None:
        if state.axis == "row":
            return found.weights.mean(0), ("caption.highlight.all", {})
        return found.weights.mean(1), ("caption.highlight.all", {})
    across = found.rows if state.axis == "row" else found.columns
    index = label_at(across, state.place, site.name, state.axis)
    weights = found.weights[index] if state.axis == "row" else found.weights[:, index]
    return weights, (f"caption.highlight.{state.axis}", {"token": across[index].text})


def label_at(labels: tuple[Label, ...], place: int, site: str, axis: str) -> int:
    """Which of the labels stands for a row or column of the map."""
    for index, each in enumerate(labels):
        if each.start <= place < each.stop:
            return index
    stop = labels[-1].stop if labels else 0
    raise InputError(
        f"no {axis} {place} is shown of {site!r}; it has 0 to {stop - 1}, and some may be hidden"
    )


def _depth_said(scene: Scene, state: State, site: Site) -> Sentence:
    if state.depth == "all":
        return "caption.all", {"sites": len(alike(scene, state.trace, site))}
    return place_said(site, state.head if state.depth == "head" else None)
