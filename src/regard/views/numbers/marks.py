"""Which rows and columns of a map a reader's eye is led to: what is pinned, what was found."""

from dataclasses import dataclass

from regard.types.finding import FindingView
from regard.views.numbers.reading import Label
from regard.views.scene import Scene
from regard.views.state import State


@dataclass(frozen=True)
class Marks:
    """Numbers of labels of rows and of columns, each in rising order."""

    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


def marks(scene: Scene, state: State, rows: tuple[Label, ...], columns: tuple[Label, ...]) -> Marks:
    """The pinned row or column, and those of the finding whose picture this is."""
    drawing = drawing_of(scene, state)
    places = {"row": set(drawing.rows), "column": set(drawing.columns)}
    if state.place is not None:
        places[state.axis].add(state.place)
    return Marks(_covering(rows, places["row"]), _covering(columns, places["column"]))


def drawing_of(scene: Scene, state: State) -> FindingView:
    """The picture of the open finding if it is of the map that is shown; else an empty one."""
    nothing = FindingView("heads")
    if state.finding is None or state.finding >= len(scene.findings or ()):
        return nothing
    finding = (scene.findings or ())[state.finding]
    drawing = finding.view or nothing
    traced = scene.trace(state.trace)
    same = traced.site(state.site) is traced.site(drawing.site) if drawing.site else True
    same &= (finding.example, drawing.head) == (state.trace, state.head)
    return drawing if same else nothing


def _covering(labels: tuple[Label, ...], places: set[int]) -> tuple[int, ...]:
    """The labels that these places are under; hidden ones have none."""
    return tuple(
        index
        for index, label in enumerate(labels)
        if any(label.start <= place < label.stop for place in places)
    )
