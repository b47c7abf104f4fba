"""A view in a notebook: the page's front end as a widget whose state Python can read and set."""

import json
import re
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

_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_WEIGHTS = 1 << 20  # of one window
MODULE_EXPORT = "\nexport default { render: regard.render };\n"


def _state_to_json(state: ViewState, widget: Any) -> dict[str, Any]:
    """The state as the front end receives it; traitlets passes the widget too."""
    return _encodable(state.to_json())


def _state_from_json(state: Any, widget: Any) -> ViewState:
    """The state that the front end sent; one that Python cannot read changes nothing."""
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
    state = traitlets.Instance(ViewState).tag(
        sync=True, to_json=_state_to_json, from_json=_state_from_json
    )

    def __init__(self, scene: Scene, state: ViewState) -> None:
        self.scene = scene
        packed = pack_scene(scene)
        super().__init__(
            _esm=built_front() + MODULE_EXPORT,
            header={"scene": _encodable(packed.header), "words": page_sentences()},
            blobs=b"".join(packed.blobs),
            state=state,
        )
        self.on_msg(self._answer_window)

    def look(self, **changes: Any) -> None:
        """Show something else: another head, site, row, unit …."""
        self.state = replace(self.state, **changes)

    @traitlets.validate("state")
    def _check_site(self, proposal: Mapping[str, Any]) -> ViewState:
        """Refuse a site or head that the scene does not have."""
        state: ViewState = proposal["value"]
        site = self.scene.trace(state.trace).site(state.site)
        if state.head is not None and state.head >= site.heads:
            raise InputError(
                f"no head {state.head} at {site.name!r}; it has heads 0 to {site.heads - 1}"
            )
        return state

    def _answer_window(self, widget: Any, content: Any, buffers: Any) -> None:
        """Send the window of a long map that the front end requests, or the reason why not."""
        if not isinstance(content, Mapping) or content.get("regard") != "window":
            return
        answer: dict[str, Any] = {"regard": "window", "id": content.get("id")}
        try:
            self.send(answer, [encode_window(self.scene, content)])
        except (RegardError, KeyError, TypeError, ValueError) as error:
            self.send(answer | {"error": str(error)})


def _encodable(record: dict[str, Any]) -> dict[str, Any]:
    """The record with U+FFFD for halves of surrogate pairs, which no message can hold."""
    text = json.dumps(record, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        replaced: dict[str, Any] = json.loads(_SURROGATE.sub("\ufffd", text))
        return replaced
    return record


def encode_window(scene: Scene, request: Mapping[str, Any]) -> bytes:
    """The exact weights of some rows and columns of a head, encoded as a blob."""
    site = scene.trace(request.get("trace", 0)).site(request["site"])
    head = request["head"]
    rows, columns = tuple(request["rows"]), tuple(request["columns"])
    _check_window(site, head, rows, columns)
    return encode(site.maps.window(Window(head, rows, columns))[None])[0]


def _check_window(
    site: SceneSite, head: int, rows: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    """Refuse a window that lies outside of the map or holds too many weights."""
    inside = 0 <= head < site.heads
    for run, size in ((rows, len(site.rows)), (columns, len(site.columns))):
        inside &= len(run) == 2 and 0 <= run[0] < run[1] <= size
    if not inside or (rows[1] - rows[0]) * (columns[1] - columns[0]) > MOST_WEIGHTS:
        raise InputError(
            f"expected a window of at most {MOST_WEIGHTS} weights within head={site.heads} "
            f"query={len(site.rows)} key={len(site.columns)} of {site.name!r}, got head {head}, "
            f"rows {rows}, columns {columns}; ask for less"
        )


def widget(scene: Scene, state: ViewState) -> Widget:
    """The widget of a view."""
    return Widget(scene, state)
