"""The numbers of a comparison: two maps over the same words, and the first minus the second."""

from dataclasses import dataclass, replace

from regard.errors import InputError
from regard.types import Axis
from regard.unicode import cut_text
from regard.views.captions import Sentence, join_sentences, processing_sentences, site_sentence
from regard.views.labelled_map import (
    LONGEST_LABEL,
    Floats,
    Label,
    LabelledMap,
    labelled_map,
    pool_weights,
)
from regard.views.scene import Scene, SceneSite
from regard.views.state import MapReference, ViewState


@dataclass(frozen=True, eq=False)
class CompareNumbers:
    """Two maps with the same rows and columns, and the first minus the second."""

    first: Floats
    second: Floats
    difference: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    caption: str


def compare_numbers(scene: Scene, state: ViewState) -> CompareNumbers:
    """The state's map and the other one, joined to common words where their tokens differ."""
    other = compared_map(scene, state)
    states = (state, replace(state, trace=other.trace, site=other.site, head=other.head))
    sites = [scene.trace(side.trace).site(side.site) for side in states]
    if any(site.long for site in sites):
        raise InputError(
            "long maps are compared part by part; cut the traces with trace.part(stream, start, "
            "stop) first"
        )
    aligned: list[Sentence] = []
    if _have_same_tokens(scene, state, other, sites):
        first, second = (labelled_map(scene, side) for side in states)
    else:
        first, second = _maps_over_common_words(scene, states, sites)
        aligned = [("caption.aligned", {})]
    names = [
        join_sentences(state.language, [site_sentence(site, side.head)])
        for site, side in zip(sites, states, strict=True)
    ]
    compared = ("caption.compare", {"first": names[0], "second": names[1]})
    sentences = [compared, *processing_sentences(sites[0], state), *aligned]
    return CompareNumbers(
        first.weights,
        second.weights,
        first.weights - second.weights,
        first.rows,
        first.columns,
        join_sentences(state.language, sentences),
    )


def compared_map(scene: Scene, state: ViewState) -> MapReference:
    """The map that the state's map is compared with; by default the same one of the last trace.

    The traces of a report are of different texts: there the default is the map itself.
    """
    trace = len(scene.traces) - 1 if scene.findings is None else state.trace
    return state.other or MapReference(trace, state.site, state.head)


def _have_same_tokens(
    scene: Scene, state: ViewState, other: MapReference, sites: list[SceneSite]
) -> bool:
    """True if the two maps have the same tokens in rows and columns."""
    streams = [scene.trace(index).streams for index in (state.trace, other.trace)]
    axes = [(site.rows, site.columns) for site in sites]
    return all(
        first.positions == second.positions
        and streams[0][first.stream].texts == streams[1][second.stream].texts
        for first, second in zip(*axes, strict=True)
    )


def _maps_over_common_words(
    scene: Scene, states: tuple[ViewState, ViewState], sites: list[SceneSite]
) -> tuple[LabelledMap, LabelledMap]:
    """Both maps over the groups of tokens that spell the same text in both traces."""
    if states[0].trace == states[1].trace:
        raise InputError(
            f"{sites[0].name!r} and {sites[1].name!r} look from or at different tokens; compare "
            "sites with the same rows and columns"
        )
    rows, columns = (
        _common_labels(scene, states, [getattr(site, side) for site in sites])
        for side in ("rows", "columns")
    )
    maps = []
    for index, state in enumerate(states):
        weights = scene.weights(state.trace, state.site, state.head)
        labels = rows[index], columns[index]
        maps.append(LabelledMap(pool_weights(weights, *labels, renormalise=True), *labels))
    return maps[0], maps[1]


def _common_labels(
    scene: Scene, states: tuple[ViewState, ViewState], axes: list[Axis]
) -> tuple[tuple[Label, ...], tuple[Label, ...]]:
    """The labels of both axes: groups that have tokens, none of them hidden, on both."""
    # Alignments are stored from the first trace to the second, whichever is compared with which.
    swapped = states[0].trace > states[1].trace
    ordered = axes[::-1] if swapped else axes
    streams = [scene.trace(index).streams[axis.stream] for index, axis in enumerate(ordered)]
    assert scene.alignments is not None
    pairs: list[tuple[Label, Label]] = []
    for a0, a1, b0, b1 in scene.alignments[ordered[0].stream, ordered[1].stream]:
        runs = [_axis_run(ordered[0], a0, a1), _axis_run(ordered[1], b0, b1)]
        special = a0 in streams[0].special or b0 in streams[1].special
        hidden = ("special" in states[0].hide and special) or (
            "first" in states[0].hide and 0 in (a0, b0)
        )
        if hidden or not all(runs):
            continue
        text = cut_text(streams[0].text(a0, a1) or streams[1].text(b0, b1), LONGEST_LABEL)
        pair = [Label(text, run.start, run.stop, special) for run in runs]
        pairs.append((pair[0], pair[1]))
    if not pairs:
        raise InputError("the two traces have no word in common; compare traces of one text")
    first, second = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    return (second, first) if swapped else (first, second)


def _axis_run(axis: Axis, start: int, stop: int) -> range:
    """The rows or columns of an axis whose tokens lie in [start, stop) of the stream."""
    inside = [index for index, position in enumerate(axis.positions) if start <= position < stop]
    return range(inside[0], inside[-1] + 1) if inside else range(0)
