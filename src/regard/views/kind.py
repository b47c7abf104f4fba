"""What a kind of picture declares of itself; importing this loads neither torch nor numpy."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from regard.errors import InputError

EXACT_TOKENS = 1024  # tokens on a side up to which every weight of a map is shown, not only cells


@dataclass(frozen=True)
class ViewKind:
    """One kind of picture, such as the heatmap: its name, what it can draw and where it is offered.

    The code of the kind `name` is in the folder `regard/views/kinds/<name>/`, and is loaded when it
    is used: `<name>_numbers` in numbers.py, `draw_<name>` in terminal.py and in figure.py. A kind
    that is drawn in fewer places leaves out terminal.py or figure.py.

    >>> from regard.views.kinds import KINDS
    >>> KINDS["heatmap"].key, KINDS["flow"].most_tokens
    ('2', 1024)
    """

    name: str
    order: int
    """Place among the tabs of a page, from 1; it is also the key that opens the tab."""
    traces: int = 1
    """How many traces one picture shows: 2 for a comparison."""
    most_tokens: int | None = None
    """The longest side of a map that it draws; None if it draws longer ones too, by cells."""
    needs_image: bool = False
    """True if the keys of the map have to be patches of an image."""
    in_findings: bool = True
    """True if a finding may name it as the picture that shows the finding."""
    in_command_line: bool = True
    """True if `regard look --view` offers it."""
    on_page: bool = True
    """True if pages have a tab for it, drawn by `<Name>View` in front/src/views/<name>.ts."""

    @property
    def key(self) -> str:
        """The key of the keyboard that opens its tab."""
        return str(self.order)

    @property
    def label_key(self) -> str:
        """The key of its name in `regard.text`."""
        return f"view.{self.name}"

    def numbers(self, scene: Any, state: Any) -> Any:
        """What the picture shows, as numbers."""
        return self._function("numbers", f"{self.name}_numbers")(scene, state)

    def terminal_drawing(self) -> Callable[..., Any]:
        """The function that draws it in the terminal."""
        return self._function("terminal", f"draw_{self.name}")

    def figure_drawing(self) -> Callable[..., Any]:
        """The function that draws it on paper."""
        return self._function("figure", f"draw_{self.name}")

    def _function(self, module: str, name: str) -> Callable[..., Any]:
        """A function of the kind's folder, imported on first use."""
        package = f"regard.views.kinds.{self.name}"
        if find_spec(f"{package}.{module}") is None:
            raise InputError(
                f"the view {self.name!r} has no {module} drawing; {package} has no module {module}"
            )
        function: Callable[..., Any] = getattr(import_module(f"{package}.{module}"), name)
        return function
