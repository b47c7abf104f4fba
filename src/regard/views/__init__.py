"""Attention made visible: a view is data, and page, notebook, figure and terminal draw it.

A function such as `heatmap(trace, site, head)` returns a `View`, which is two values:

- a `Scene` (package scene): the traces made ready to be drawn. It knows tokens, words and weights,
  nothing of colours or HTML.
- a `ViewState` (state.py): what is shown at the moment. `ViewState(view="heatmap", site="h.2",
  head=3, unit="word")` is a heatmap of head 3 of site h.2, over words.

From these every output is drawn. In the terminal::

    view = regard.heatmap(trace, "h.2", head=3)
    KINDS["heatmap"].numbers(scene, state)   # kinds/heatmap/numbers.py: weights, labels, caption
    draw_heatmap(numbers, …)                 # kinds/heatmap/terminal.py: lines that rich prints

A figure takes the same numbers to kinds/heatmap/figure.py, which draws on a canvas of matplotlib.
A page computes them itself, in the reader's browser, because a reader can go to any head:

    numbers -> scene -> packed bytes -> HTML
    pack_scene(scene)          # scene/packing.py: a JSON header, and one blob of bytes per head
    encode(weights)            # package encoding: 12 heads of 128 x 128 weights in about 100 kB
    page(packed, state)        # page/html.py: header, blobs and the front end front.js in one file

The front end (TypeScript, folder front/) decodes the blobs and draws; page/FORMAT.md describes the
bytes. A notebook shows the same front end as a widget (notebook.py). A report (reports.py) is a
scene with findings, each of which opens the picture that shows it. A table of a study (table.py)
is a page of its own without a scene.

Kinds of pictures are folders of the package kinds: everything that lists them is derived from
their registrations. Names of this package are loaded on first use, so that
`regard.views.kinds`, which the command line asks for its choices, is imported without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.views.choose import view
    from regard.views.functions import (
        ViewOptions,
        compare,
        flow,
        heads,
        heatmap,
        highlight,
        overlay,
    )
    from regard.views.kinds import ViewKind
    from regard.views.outputs import View
    from regard.views.reports import report
    from regard.views.scene import Scene
    from regard.views.state import MapReference, ViewState

_MODULES = {
    "MapReference": "state",
    "Scene": "scene",
    "View": "outputs",
    "ViewKind": "kinds",
    "ViewOptions": "functions",
    "ViewState": "state",
    "compare": "functions",
    "flow": "functions",
    "heads": "functions",
    "heatmap": "functions",
    "highlight": "functions",
    "overlay": "functions",
    "report": "reports",
    "view": "choose",
}

__all__ = [
    "MapReference",
    "Scene",
    "View",
    "ViewKind",
    "ViewOptions",
    "ViewState",
    "compare",
    "flow",
    "heads",
    "heatmap",
    "highlight",
    "overlay",
    "report",
    "view",
]


def __getattr__(name: str) -> Any:
    """Load a name of the package on its first use."""
    if name in _MODULES:
        return getattr(import_module(f"regard.views.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'regard.views' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
