"""A View: a scene and the state to show, and its outputs: page, figure, terminal and notebook.

Each output is a module of its own that is loaded when it is used, because it may need a package
that is not installed: `figure.write(scene, state, path)`, `terminal.render(scene, state)` and
`notebook.widget(scene, state)`.
"""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from regard.documents import check_record, read_json
from regard.errors import FileError, InputError
from regard.files import atomic_file
from regard.views.kinds import KINDS
from regard.views.page import write_page
from regard.views.scene import PackedScene, Scene, pack_scene, unpack_scene
from regard.views.state import ViewState

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
_MAX_JSON_BYTES = 1 << 30  # the scene of a long text has large blobs


class ViewRecord(TypedDict):
    """A saved view: the header of its scene, its state, and the blobs in base64."""

    scene: dict[str, Any]
    state: dict[str, Any]
    blobs: list[str]


@dataclass(frozen=True, eq=False)
class View:
    """Attention ready to be drawn: `save` it, `print` it, or let a notebook show it.

    >>> import torch
    >>> from regard.types import Trace
    >>> from regard.views import heatmap
    >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
    >>> view = heatmap(trace, head=0)
    >>> view.numbers.weights.tolist()[1]
    [0.0, 1.0, 0.0]
    """

    scene: Scene
    state: ViewState

    @cached_property
    def numbers(self) -> Any:
        """What the picture shows; of a heatmap its weights, shades, labels and caption."""
        return KINDS[self.state.view].numbers(self.scene, self.state)

    @cached_property
    def packed(self) -> PackedScene:
        """The scene as a JSON header and blobs of bytes."""
        return pack_scene(self.scene)

    def with_state(self, **changes: Any) -> "View":
        """The same scene in another state: `view.with_state(head=3)`."""
        return View(self.scene, replace(self.state, **changes))

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        width: float | Literal["single", "double"] | None = None,
    ) -> Path:
        """Write a page (.html), a figure (.png, .svg, .pdf) or the data (.json); its path.

        A figure is as wide as a "single" or "double" column of a paper, or as many millimetres.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix in (".html", ".htm"):
            write_page(path, self.packed, self.state)
        elif suffix == ".json":
            _write_json(path, self.packed, self.state)
        elif suffix in FIGURE_SUFFIXES:
            sized = {} if width is None else {"width": width}
            _output_module("figure").write(self.scene, self.state, path, **sized)
        else:
            raise InputError(
                f"cannot save a view as {path.name!r}; expected a name that ends with .html, "
                ".png, .svg, .pdf or .json"
            )
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "View":
        """The view that was saved as JSON."""
        try:
            data = read_json(Path(path), max_bytes=_MAX_JSON_BYTES)
            check_record("the file", data, ViewRecord)
            blobs = tuple(base64.b64decode(blob) for blob in data["blobs"])
            return cls(
                unpack_scene(PackedScene(data["scene"], blobs)), ViewState.from_json(data["state"])
            )
        except FileError:
            raise
        except ValueError as error:  # an InputError, or blobs that are not base64
            raise FileError(
                f"{os.fspath(path)} is no saved view ({error}); give a file that "
                'view.save("….json") wrote'
            ) from error

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> Iterator["RenderableType"]:
        yield _output_module("terminal").render(self.scene, self.state)

    def __str__(self) -> str:
        from regard.terminal import make_console

        console = make_console()
        with console.capture() as drawn:
            console.print(self)
        return drawn.get().rstrip("\n")

    def __repr__(self) -> str:
        findings = self.scene.findings
        if findings is not None:
            return f"<report of {len(findings)} finding{'s' * (len(findings) != 1)}>"
        site = self.scene.trace(self.state.trace).site(self.state.site)
        head = "" if self.state.head is None else f", head {self.state.head}"
        return f"<{self.state.view} view of {site.name!r}{head}>"

    @cached_property
    def widget(self) -> Any:
        """What a notebook shows; its `state` follows the reader's clicks, and may be set."""
        return _output_module("notebook").widget(self.scene, self.state)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """What Jupyter shows for a view that is the last line of a cell: its widget."""
        return self.widget._repr_mimebundle_(**options)


def _output_module(name: str) -> Any:
    """The module of one output; its import fails where the package that it needs is missing."""
    return import_module(f"regard.views.{name}")


def _write_json(path: Path, packed: PackedScene, state: ViewState) -> None:
    """Write the header, the state and the blobs in base64, which `View.load` reads."""
    data = {
        "scene": packed.header,
        "state": state.to_json(),
        "blobs": [base64.b64encode(blob).decode() for blob in packed.blobs],
    }
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(data, indent=1), "utf-8")
