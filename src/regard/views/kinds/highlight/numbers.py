"""The numbers of highlighted text: how much attention each piece, word or sentence received."""

from dataclasses import dataclass, replace

import numpy as np

from regard.errors import InputError
from regard.types import Axis
from regard.unicode import cut_text
from regard.views.captions import (
    Sentence,
    join_sentences,
    processing_sentences,
    scale_sentence,
    site_sentence,
)
from regard.views.labelled_map import (
    Floats,
    Label,
    LabelledMap,
    label_at,
    labelled_map,
    shade_weights,
    sites_alike,
)
from regard.views.scene import Scene, SceneSite, TokenStream
from regard.views.state import ViewState

TOP_UNITS = 8  # units in the list of those with most weight
MOST_CHARACTERS = 12_000  # of the whole text; a thousand words of a book have half of it
FEWEST_CHARACTERS = 12  # of a unit whose text is cut


@dataclass(frozen=True)
class ShadedUnit:
    """One piece, word or sentence of the text, its weight, and how strongly it is shaded.

    It is `marked`, which is drawn as underlined, if one of its tokens is.
    """

    text: str
    spaced: bool
    weight: float
    shade: float
    start: int
    stop: int
    marked: bool = False


@dataclass(frozen=True)
class HighlightNumbers:
    """A text in shaded units, the units of most weight in descending order, and a caption."""

    stream: str
    words: tuple[ShadedUnit, ...]
    top: tuple[tuple[str, float], ...]
    caption: str


def highlight_numbers(scene: Scene, state: ViewState) -> HighlightNumbers:
    """The text of the keys, shaded by the weights of one query or by the mean over all queries.

    With the axis "column" it is the text of the queries, shaded by their weights on one key.
    """
    site = scene.trace(state.trace).site(state.site)
    if site.long:
        raise InputError(
            f"the map of {site.name!r} is too long for highlighted text; show a part of it with "
            "trace.part(stream, start, stop)"
        )
    shown = _map_at_depth(scene, state, site)
    weights, line_sentence = _pinned_line(shown, site, state)
    axis = site.columns if state.axis == "row" else site.rows
    labels = shown.columns if state.axis == "row" else shown.rows
    shades = shade_weights(weights[None], state.scale)[0]
    stream = scene.trace(state.trace).streams[axis.stream]
    texts, marked = _unit_texts(stream, axis, labels), {*stream.marked}
    words = [
        ShadedUnit(
            text,
            stream.spaced[axis.positions[label.start]],
            float(weight),
            float(shade),
            label.start,
            label.stop,
            any(position in marked for position in axis.positions[label.start : label.stop]),
        )
        for label, text, weight, shade in zip(labels, texts, weights, shades, strict=True)
    ]
    order = np.argsort(-weights, kind="stable")[:TOP_UNITS]
    top = tuple((labels[index].text, float(weights[index])) for index in order if weights[index])
    sentences = [_depth_sentence(scene, state, site), line_sentence]
    sentences += processing_sentences(site, state)
    sentences.append(scale_sentence(state, float(weights.max(initial=0))))
    return HighlightNumbers(
        axis.stream, tuple(words), top, join_sentences(state.language, sentences)
    )


def _unit_texts(stream: TokenStream, axis: Axis, labels: tuple[Label, ...]) -> list[str]:
    """The running text of each unit; all are cut alike if together they are too long to draw."""
    texts = [
        stream.text(axis.positions[label.start], axis.positions[label.stop - 1] + 1)
        for label in labels
    ]
    if sum(map(len, texts)) <= MOST_CHARACTERS:
        return texts
    longest = max(FEWEST_CHARACTERS, MOST_CHARACTERS // len(texts))
    return [cut_text(text, longest) for text in texts]


def _map_at_depth(scene: Scene, state: ViewState, site: SceneSite) -> LabelledMap:
    """The map of the head, of the layer, or of all layers that have the same rows and columns."""
    if state.depth == "head":
        return labelled_map(scene, state)
    if state.depth == "layer":
        return labelled_map(scene, replace(state, head=None))
    layers = [
        labelled_map(scene, replace(state, site=layer.name, head=None))
        for layer in sites_alike(scene, state.trace, site)
    ]
    weights = np.stack([layer.weights for layer in layers]).mean(0, dtype=np.float64)
    return replace(layers[0], weights=weights.astype(np.float32))


def _pinned_line(shown: LabelledMap, site: SceneSite, state: ViewState) -> tuple[Floats, Sentence]:
    """The pinned row or column of the map, else the mean of all, and a sentence that says which."""
    if state.place is None:
        mean = shown.weights.mean(0 if state.axis == "row" else 1)
        return mean, ("caption.highlight.all", {})
    across = shown.rows if state.axis == "row" else shown.columns
    index = label_at(across, state.place, site.name, state.axis)
    weights = shown.weights[index] if state.axis == "row" else shown.weights[:, index]
    # an aggregate, such as a rollout or an occlusion, is no attention of a token
    what = "share" if site.kind == "aggregate" and state.axis == "row" else state.axis
    return weights, (f"caption.highlight.{what}", {"token": across[index].text})


def _depth_sentence(scene: Scene, state: ViewState, site: SceneSite) -> Sentence:
    """Which head, layer or layers the weights are of."""
    if state.depth == "all":
        return "caption.all", {"sites": len(sites_alike(scene, state.trace, site))}
    return site_sentence(site, state.head if state.depth == "head" else None)
