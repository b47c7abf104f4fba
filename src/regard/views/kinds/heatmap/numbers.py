"""The numbers of a heatmap: weights, shades, labels, and the rows and columns to be framed."""

from dataclasses import dataclass

from regard.types.finding import FindingView
from regard.views.captions import (
    join_sentences,
    processing_sentences,
    scale_sentence,
    site_sentence,
)
from regard.views.labelled_map import Floats, Label, labelled_map, shade_weights
from regard.views.scene import Scene
from regard.views.state import ViewState

NARROW_MAP = 14  # columns of a map that a single column of a paper has room for


@dataclass(frozen=True, eq=False)
class HeatmapNumbers:
    """Cells with their weights and shades from 0 to 1, and a caption.

    `cells` are the rows and columns of weights in each cell; with more than one they are means.
    """

    weights: Floats
    shades: Floats
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: tuple[int, int]
    caption: str

    @property
    def fits_single_column(self) -> bool:
        """True if the map has room in a single column of a paper."""
        return len(self.columns) <= NARROW_MAP


def heatmap_numbers(scene: Scene, state: ViewState) -> HeatmapNumbers:
    """The heatmap of the state's site and head."""
    site = scene.trace(state.trace).site(state.site)
    shown = labelled_map(scene, state)
    largest = float(shown.weights.max(initial=0))
    sentences = [
        site_sentence(site, state.head),
        *processing_sentences(site, state),
        scale_sentence(state, largest),
    ]
    return HeatmapNumbers(
        shown.weights,
        shade_weights(shown.weights, state.scale),
        shown.rows,
        shown.columns,
        site.maps.cells,
        join_sentences(state.language, sentences),
    )


@dataclass(frozen=True)
class FramedLabels:
    """The indices of row labels and of column labels that get a frame, ascending."""

    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


def framed_labels(
    scene: Scene, state: ViewState, rows: tuple[Label, ...], columns: tuple[Label, ...]
) -> FramedLabels:
    """The pinned row or column, and the rows and columns that the open finding is about."""
    shown = _open_finding_view(scene, state)
    positions = {"row": set(shown.rows), "column": set(shown.columns)}
    if state.place is not None:
        positions[state.axis].add(state.place)
    return FramedLabels(
        _labels_covering(rows, positions["row"]), _labels_covering(columns, positions["column"])
    )


def _open_finding_view(scene: Scene, state: ViewState) -> FindingView:
    """The view of the open finding if it is of the map that is shown, else an empty one."""
    nothing = FindingView("heads")
    if state.finding is None or state.finding >= len(scene.findings or ()):
        return nothing
    finding = (scene.findings or ())[state.finding]
    shown = finding.view or nothing
    trace = scene.trace(state.trace)
    same = trace.site(state.site) is trace.site(shown.site) if shown.site else True
    same &= (finding.example, shown.head) == (state.trace, state.head)
    return shown if same else nothing


def _labels_covering(labels: tuple[Label, ...], positions: set[int]) -> tuple[int, ...]:
    """The indices of the labels that these positions belong to; hidden positions have none."""
    return tuple(
        index
        for index, label in enumerate(labels)
        if any(label.start <= position < label.stop for position in positions)
    )
