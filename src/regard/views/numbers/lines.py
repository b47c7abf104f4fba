"""The numbers of a flow: lines from token to token, and only those that matter."""

from dataclasses import dataclass, replace

import numpy as np

from regard.errors import InputError
from regard.views.captions import Sentence, done_said, join_sentences, percent, place_said
from regard.views.numbers.highlight import alike, label_at
from regard.views.numbers.reading import Floats, Label, read
from regard.views.scene import Scene, Site
from regard.views.state import State

THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
LOWER = (0.01, 0.005, 0.002, 0.001)  # where weights are spread over a long text
USUAL = 4  # lines for each token that a picture can hold
FEW = 12  # lines that a picture of many tokens should have


@dataclass(frozen=True)
class Line:
    """A line between a label of one column of tokens and one of the next, for a head or all."""

    level: int
    start: int
    stop: int
    weight: float
    head: int | None = None


@dataclass(frozen=True)
class Lines:
    """Columns of tokens and the lines between them, heaviest last, so that they lie on top.

    With two levels, lines of level 0 go from a query (level 0) to a key (level 1). Across all
    layers, level 0 is the last layer's output, and each next level what was read for it.
    """

    levels: tuple[tuple[Label, ...], ...]
    lines: tuple[Line, ...]
    threshold: float
    count: int
    caption: str


def lines(scene: Scene, state: State) -> Lines:
    """The flow of the state: one site head by head, all layers down from a token, or decoding."""
    site = scene.trace(state.trace).site(state.site)
    if site.long:
        raise InputError(
            f"the map of {site.name!r} is too long for lines; show a part of it with "
            "trace.part(stream, start, stop)"
        )
    return _across(scene, state, site) if state.span == "all" else _between(scene, state, site)


def _between(scene: Scene, state: State, site: Site) -> Lines:
    """Lines from queries to keys, of each head that is switched on, or of the mean."""
    heads: list[int | None] = [state.head]
    if state.head is None and state.span == "layers":
        heads = list(range(site.heads) if state.heads is None else state.heads)
    readings = [read(scene, replace(state, head=head)) for head in heads]
    rows, columns = readings[0].rows, readings[0].columns
    shown = [_pinned(each.weights, rows, columns, site, state) for each in readings]
    threshold = _threshold(shown, state, max(len(rows), len(columns)))
    found = [
        Line(0, int(row), int(column), float(weights[row, column]), head)
        for head, weights in zip(heads, shown, strict=True)
        for row, column in np.argwhere(weights >= threshold)
    ]
    said = [_heads_said(site, heads), (f"caption.flow.{state.span}", {})]
    said += done_said(site, state)
    count = int(sum((weights > 0).sum() for weights in shown))
    return _drawn((rows, columns), found, threshold, count, (said, state))


def _across(scene: Scene, state: State, site: Site) -> Lines:
    """Lines that carry attention down to one token of the last layer."""
    if site.rows != site.columns:
        raise InputError(
            f"the rows of {site.name!r} are not its columns, so layers do not follow one another; "
            "choose a site of self-attention"
        )
    sites = alike(scene, state.trace, site)
    readings = [read(scene, replace(state, site=each.name)) for each in reversed(sites)]
    # the first token may be hidden among the columns only
    labels = readings[0].columns
    keep = [index for index, each in enumerate(readings[0].rows) if each in labels]
    last = labels[-1].stop - 1 if state.place is None else state.place
    token = label_at(labels, last, site.name, "row")
    reached = np.zeros(len(labels))
    reached[token] = 1.0
    flows: list[Floats] = []
    for each in readings:
        flow = reached[:, None] * each.weights[keep]
        flows.append(flow.astype(np.float32))
        reached = flow.sum(0)
    threshold = _threshold(flows, state, len(labels) * len(flows) // 2)
    found = [
        Line(level, int(row), int(column), float(flow[row, column]), state.head)
        for level, flow in enumerate(flows)
        for row, column in np.argwhere(flow >= threshold)
    ]
    said: list[Sentence] = [
        ("caption.all", {"sites": len(sites)})
        if state.head is None
        else place_said(site, state.head),
        ("caption.flow.all", {"token": labels[token].text}),
        *done_said(site, state),
    ]
    count = int(sum((flow > 0).sum() for flow in flows))
    return _drawn((labels,) * (len(flows) + 1), found, threshold, count, (said, state))


def _pinned(
    weights: Floats,
    rows: tuple[Label, ...],
    columns: tuple[Label, ...],
    site: Site,
    state: State,
) -> Floats:
    """The weights of the pinned row or column alone."""
    if state.place is None:
        return weights
    kept = np.zeros_like(weights)
    labels = rows if state.axis == "row" else columns
    index = label_at(labels, state.place, site.name, state.axis)
    place = (index, slice(None)) if state.axis == "row" else (slice(None), index)
    kept[place] = weights[place]
    return kept


def _threshold(shown: list[Floats], state: State, tokens: int) -> float:
    """The least weight that is drawn; if none is asked for, one that leaves few lines."""
    if state.threshold is not None:
        return max(state.threshold, 1e-9)

    def count(least: float) -> int:
        return sum(int((weights >= least).sum()) for weights in shown)

    found = next((each for each in THRESHOLDS if count(each) <= USUAL * tokens), THRESHOLDS[-1])
    for lower in LOWER:
        if found >= THRESHOLDS[1] or count(found) >= min(FEW, tokens // 8):
            break
        found = lower if count(lower) <= USUAL * tokens else found
    return found


def _heads_said(site: Site, heads: list[int | None]) -> Sentence:
    if len(heads) == 1:
        return place_said(site, heads[0])
    return "caption.some", {"site": site.name, "heads": len(heads)}


def _drawn(
    levels: tuple[tuple[Label, ...], ...],
    found: list[Line],
    threshold: float,
    count: int,
    telling: tuple[list[Sentence], State],
) -> Lines:
    said, state = telling
    filled = {"threshold": percent(threshold), "shown": len(found), "all": count}
    said = [*said, ("caption.threshold", filled)]
    ordered = tuple(sorted(found, key=lambda line: line.weight))
    return Lines(levels, ordered, threshold, count, join_sentences(state.language, said))
