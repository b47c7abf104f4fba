"""The numbers of a comparison: two maps over the same words, and one minus the other."""

from dataclasses import dataclass, replace

from regard.errors import InputError
from regard.types import Axis
from regard.views.captions import Sentence, done_said, join_sentences, place_said
from regard.views.numbers.reading import Floats, Label, Reading, joined, read
from regard.views.scene import Scene, Site
from regard.views.state import Place, State


@dataclass(frozen=True, eq=False)
class Difference:
    """Two maps with the same rows and columns, and the first minus the second."""

    first: Floats
    second: Floats
    difference: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    caption: str


def difference(scene: Scene, state: State) -> Difference:
    """The state's map and the other place's, over words where their tokens differ."""
    other = other_place(scene, state)
    states = (state, replace(state, trace=other.trace, site=other.site, head=other.head))
    sites = [scene.trace(each.trace).site(each.site) for each in states]
    if any(site.long for site in sites):
        raise InputError(
            "long maps are compared part by part; cut the traces with trace.part(stream, start, "
            "stop) first"
        )
    said: list[Sentence] = []
    if _same(scene, state, other, sites):
        first, second = (read(scene, each) for each in states)
        rows, columns = first.rows, first.columns
    else:
        first, second = _over_words(scene, states, sites)
        rows, columns = first.rows, first.columns
        said = [("caption.aligned", {})]
    names = [
        join_sentences(state.language, [place_said(site, each.head)])
        for site, each in zip(sites, states, strict=True)
    ]
    compared = ("caption.compare", {"first": names[0], "second": names[1]})
    said = [compared, *done_said(sites[0], state), *said]
    return Difference(
        first.weights,
        second.weights,
        first.weights - second.weights,
        rows,
        columns,
        join_sentences(state.language, said),
    )


def other_place(scene: Scene, state: State) -> Place:
    """What is compared with: if it is not said, the same place of the last trace.

    The traces of a report are of different texts: there it is the place itself.
    """
    trace = len(scene.traces) - 1 if scene.findings is None else state.trace
    return state.other or Place(trace, state.site, state.head)


def _same(scene: Scene, state: State, other: Place, sites: list[Site]) -> bool:
    """Whether the two maps have the same tokens in rows and columns."""
    streams = [scene.trace(index).streams for index in (state.trace, other.trace)]
    axes = [(site.rows, site.columns) for site in sites]
    return all(
        mine.places == its.places and streams[0][mine.stream].texts == streams[1][its.stream].texts
        for mine, its in zip(*axes, strict=True)
    )


def _over_words(
    scene: Scene, states: tuple[State, State], sites: list[Site]
) -> tuple[Reading, Reading]:
    """Both maps over the groups of tokens that both streams spell."""
    if states[0].trace == states[1].trace:
        raise InputError(
            f"{sites[0].name!r} and {sites[1].name!r} look from or at different tokens; compare "
            "sites with the same rows and columns"
        )
    rows, columns = (
        _groups(scene, states, [getattr(site, side) for site in sites])
        for side in ("rows", "columns")
    )
    found = []
    for index, each in enumerate(states):
        weights = scene.weights(each.trace, each.site, each.head)
        sides = rows[index], columns[index]
        found.append(Reading(joined(weights, *sides, renormalised=True), *sides))
    return found[0], found[1]


def _groups(
    scene: Scene, states: tuple[State, State], axes: list[Axis]
) -> tuple[tuple[Label, ...], tuple[Label, ...]]:
    """The labels of both axes: groups that have tokens, not hidden, on both."""
    swapped = states[0].trace > states[1].trace
    ordered = axes[::-1] if swapped else axes
    streams = [scene.trace(index).streams[each.stream] for index, each in enumerate(ordered)]
    assert scene.alignments is not None
    found: list[tuple[Label, Label]] = []
    for a0, a1, b0, b1 in scene.alignments[ordered[0].stream, ordered[1].stream]:
        runs = [_run(ordered[0], a0, a1), _run(ordered[1], b0, b1)]
        special = a0 in streams[0].special or b0 in streams[1].special
        hidden = ("special" in states[0].hide and special) or (
            "first" in states[0].hide and 0 in (a0, b0)
        )
        if hidden or not all(runs):
            continue
        text = streams[0].text(a0, a1) or streams[1].text(b0, b1)
        pair = [Label(text, run.start, run.stop, special) for run in runs]
        found.append((pair[0], pair[1]))
    if not found:
        raise InputError("the two traces have no word in common; compare traces of one text")
    first, second = (tuple(pair[side] for pair in found) for side in (0, 1))
    return (second, first) if swapped else (first, second)


def _run(axis: Axis, start: int, stop: int) -> range:
    inside = [index for index, place in enumerate(axis.places) if start <= place < stop]
    return range(inside[0], inside[-1] + 1) if inside else range(0)
