"""The numbers of a flow: lines from token to token, and only those of enough weight."""

from dataclasses import dataclass, replace

import numpy as np

from regard.errors import InputError
from regard.unicode import cut_text
from regard.views.captions import (
    LONGEST_NAME,
    Sentence,
    join_sentences,
    percent,
    processing_sentences,
    site_sentence,
)
from regard.views.labelled_map import Floats, Label, label_at, labelled_map, sites_alike
from regard.views.scene import Scene, SceneSite
from regard.views.state import ViewState

THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
LOWER_THRESHOLDS = (0.01, 0.005, 0.002, 0.001)  # for weights that are spread over a long text
MOST_LINES_PER_TOKEN = 4  # more would cover one another
FEWEST_LINES = 12  # fewer say too little of a picture of many tokens


@dataclass(frozen=True)
class FlowLine:
    """A line from a label of one level to a label of the next, of one head or of the mean."""

    level: int
    start: int
    stop: int
    weight: float
    head: int | None = None


@dataclass(frozen=True)
class FlowNumbers:
    """Levels (columns of tokens) and the lines between them, heaviest last, drawn on top.

    With two levels, lines of level 0 go from a query (level 0) to a key (level 1). Across all
    layers, level 0 is the last layer's output, and each next level what was read for it. `count`
    is the number of lines that have any weight, drawn or not.
    """

    levels: tuple[tuple[Label, ...], ...]
    lines: tuple[FlowLine, ...]
    threshold: float
    count: int
    caption: str

    @property
    def fits_single_column(self) -> bool:
        """True if there are only two columns of tokens, queries and keys."""
        return len(self.levels) == 2


def flow_numbers(scene: Scene, state: ViewState) -> FlowNumbers:
    """The lines of one site, of all layers down to one token, or of decoding over time."""
    site = scene.trace(state.trace).site(state.site)
    if site.long:
        raise InputError(
            f"the map of {site.name!r} is too long for lines; show a part of it with "
            "trace.part(stream, start, stop)"
        )
    if state.span == "all":
        return _lines_across_layers(scene, state, site)
    return _lines_of_site(scene, state, site)


def _lines_of_site(scene: Scene, state: ViewState, site: SceneSite) -> FlowNumbers:
    """Lines from queries to keys, of each head that is switched on, or of the mean."""
    heads: list[int | None] = [state.head]
    if state.head is None and state.span == "layers":
        heads = list(range(site.heads) if state.heads is None else state.heads)
    maps = [labelled_map(scene, replace(state, head=head)) for head in heads]
    rows, columns = maps[0].rows, maps[0].columns
    weights_by_head = [
        _pinned_weights(head_map.weights, rows, columns, site, state) for head_map in maps
    ]
    threshold = _line_threshold(weights_by_head, state, max(len(rows), len(columns)))
    lines = [
        FlowLine(0, int(row), int(column), float(weights[row, column]), head)
        for head, weights in zip(heads, weights_by_head, strict=True)
        for row, column in np.argwhere(weights >= threshold)
    ]
    sentences = [_heads_sentence(site, heads), (f"caption.flow.{state.span}", {})]
    sentences += processing_sentences(site, state)
    count = int(sum((weights > 0).sum() for weights in weights_by_head))
    return _with_caption(
        FlowNumbers((rows, columns), tuple(lines), threshold, count, ""), sentences, state
    )


def _lines_across_layers(scene: Scene, state: ViewState, site: SceneSite) -> FlowNumbers:
    """Lines that follow the attention of one token of the last layer down through all layers."""
    if site.rows != site.columns:
        raise InputError(
            f"the rows of {site.name!r} are not its columns, so layers do not follow one another; "
            "choose a site of self-attention"
        )
    sites = sites_alike(scene, state.trace, site)
    maps = [labelled_map(scene, replace(state, site=layer.name)) for layer in reversed(sites)]
    labels = maps[0].columns
    # The first token may be hidden among the columns only: keep the rows that are columns too.
    kept_rows = [index for index, label in enumerate(maps[0].rows) if label in labels]
    last = labels[-1].stop - 1 if state.place is None else state.place
    token = label_at(labels, last, site.name, "row")
    reached = np.zeros(len(labels))
    reached[token] = 1.0
    flows: list[Floats] = []
    for layer in maps:
        flow = reached[:, None] * layer.weights[kept_rows]
        flows.append(flow.astype(np.float32))
        reached = flow.sum(0)
    threshold = _line_threshold(flows, state, len(labels) * len(flows) // 2)
    lines = [
        FlowLine(level, int(row), int(column), float(flow[row, column]), state.head)
        for level, flow in enumerate(flows)
        for row, column in np.argwhere(flow >= threshold)
    ]
    sentences: list[Sentence] = [
        ("caption.all", {"sites": len(sites)})
        if state.head is None
        else site_sentence(site, state.head),
        ("caption.flow.all", {"token": labels[token].text}),
        *processing_sentences(site, state),
    ]
    count = int(sum((flow > 0).sum() for flow in flows))
    levels = (labels,) * (len(flows) + 1)
    return _with_caption(FlowNumbers(levels, tuple(lines), threshold, count, ""), sentences, state)


def _pinned_weights(
    weights: Floats,
    rows: tuple[Label, ...],
    columns: tuple[Label, ...],
    site: SceneSite,
    state: ViewState,
) -> Floats:
    """The weights with all but the pinned row or column set to zero."""
    if state.place is None:
        return weights
    pinned = np.zeros_like(weights)
    labels = rows if state.axis == "row" else columns
    index = label_at(labels, state.place, site.name, state.axis)
    line = (index, slice(None)) if state.axis == "row" else (slice(None), index)
    pinned[line] = weights[line]
    return pinned


def _line_threshold(weights_by_head: list[Floats], state: ViewState, tokens: int) -> float:
    """The least weight that is drawn; by default one that leaves neither many nor few lines."""
    if state.threshold is not None:
        return max(state.threshold, 1e-9)

    def count(least: float) -> int:
        """The number of lines of at least this weight."""
        return sum(int((weights >= least).sum()) for weights in weights_by_head)

    most = MOST_LINES_PER_TOKEN * tokens
    threshold = next((least for least in THRESHOLDS if count(least) <= most), THRESHOLDS[-1])
    for lower in LOWER_THRESHOLDS:
        if threshold >= THRESHOLDS[1] or count(threshold) >= min(FEWEST_LINES, tokens // 8):
            break
        threshold = lower if count(lower) <= most else threshold
    return threshold


def _heads_sentence(site: SceneSite, heads: list[int | None]) -> Sentence:
    """Which site and heads the lines are of."""
    if len(heads) == 1:
        return site_sentence(site, heads[0])
    name = cut_text(site.name, LONGEST_NAME)
    return "caption.some", {"site": name, "heads": len(heads)}


def _with_caption(numbers: FlowNumbers, sentences: list[Sentence], state: ViewState) -> FlowNumbers:
    """The numbers with their lines sorted by weight, and a caption that says how many are drawn."""
    values = {
        "threshold": percent(numbers.threshold),
        "shown": len(numbers.lines),
        "all": numbers.count,
    }
    sentences = [*sentences, ("caption.threshold", values)]
    lines = tuple(sorted(numbers.lines, key=lambda line: line.weight))
    return replace(numbers, lines=lines, caption=join_sentences(state.language, sentences))
