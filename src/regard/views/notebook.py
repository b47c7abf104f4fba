"""A view in a notebook: the page's own front end as a widget, whose state goes both ways."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.errors import InputError, RegardError
from regard.views.captions import page_sentences
from regard.views.encoding import encode
from regard.views.page.html import built_front
from regard.views.scene import Scene, SceneSite, pack_scene
from regard.views.scene.maps import Window
from regard.views.state import ViewState

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise InputError(
        "showing a view in a notebook needs anywidget; install it with: "
        "pip install 'regard[notebook]'"
    ) from error

MOST = 1 << 20  # weights of one window
EXPORT = "\nexport default { render: regard.render };\n"


def _sent(state: ViewState, widget: Any) -> dict[str, Any]:
    return state.to_json()


def _received(state: Any, widget: Any) -> ViewState:
    """What the front end says; a word that Python does not know changes nothing."""
    try:
        return ViewState.from_json(state)
    except (RegardError, TypeError):
        current: ViewState = widget.state
        return current


class Widget(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
    """A view that a notebook shows; `state` is what is looked at, and may be set.

    `widget.look(head=3)` changes parts of it, and `widget.observe(function, "state")` calls a
    function when a reader does.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    header = traitlets.Dict().tag(sync=True)
    blobs = traitlets.Bytes().tag(sync=True)
    state = traitlets.Instance(ViewState).tag(sync=True, to_json=_sent, from_json=_received)

    def __init__(self, scene: Scene, state: ViewState) -> None:
        self.scene = scene
        packed = pack_scene(scene)
        super().__init__(
            _esm=built_front() + EXPORT,
            header={"scene": packed.header, "words": page_sentences()},
            blobs=b"".join(packed.blobs),
            state=state,
        )
        self.on_msg(self._answer)

    def look(self, **changes: Any) -> None:
        """Look at something else: another head, site, row, unit …."""
        self.state = replace(self.state, **changes)

    @traitlets.validate("state")
    def _check(self, proposal: Mapping[str, Any]) -> ViewState:
        """Refuse a site or head that the scene does not have."""
        state: ViewState = proposal["value"]
        site = self.scene.trace(state.trace).site(state.site)
        if state.head is not None and state.head >= site.heads:
            raise InputError(
                f"no head {state.head} at {site.name!r}; it has heads 0 to {site.heads - 1}"
            )
        return state

    def _answer(self, widget: Any, content: Any, buffers: Any) -> None:
        """Send the window of a long map that the front end asks for, or why it cannot be had."""
        if not isinstance(content, Mapping) or content.get("regard") != "window":
            return
        answer: dict[str, Any] = {"regard": "window", "id": content.get("id")}
        try:
            self.send(answer, [window(self.scene, content)])
        except (RegardError, KeyError, TypeError, ValueError) as error:
            self.send(answer | {"error": str(error)})


def window(scene: Scene, asked: Mapping[str, Any]) -> bytes:
    """The weights of some rows and columns of a head, exact, as a blob of the scene's code."""
    site = scene.trace(asked.get("trace", 0)).site(asked["site"])
    head, rows, columns = asked["head"], tuple(asked["rows"]), tuple(asked["columns"])
    _check_window(site, head, rows, columns)
    return encode(site.maps.window(Window(head, rows, columns))[None])[0]


def _check_window(
    site: SceneSite, head: int, rows: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    inside = 0 <= head < site.heads
    for run, size in ((rows, len(site.rows)), (columns, len(site.columns))):
        inside &= len(run) == 2 and 0 <= run[0] < run[1] <= size
    if not inside or (rows[1] - rows[0]) * (columns[1] - columns[0]) > MOST:
        raise InputError(
            f"expected a window of at most {MOST} weights within head={site.heads} "
            f"query={len(site.rows)} key={len(site.columns)} of {site.name!r}, got head {head}, "
            f"rows {rows}, columns {columns}; ask for less"
        )


def widget(scene: Scene, state: ViewState) -> Widget:
    """The widget of a view."""
    return Widget(scene, state)
