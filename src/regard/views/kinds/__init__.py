"""All kinds of pictures, one folder each: what lists kinds anywhere is derived from `KINDS`.

A folder holds four files:

- `__init__.py`: the registration, a `ViewKind` named KIND
- `numbers.py`: what the picture shows, as a frozen value with a caption
- `terminal.py`: the value drawn with rich
- `figure.py`: the value drawn with matplotlib

Folders are discovered, so a new one needs no entry in any list: the command line's choices, the
tabs of pages, the links of findings and the tables of the documentation are made from `KINDS`.
This module is cheap to import (no torch), because `regard look --help` asks it for the choices.

>>> from regard.views.kinds import KINDS
>>> [*KINDS]
['heads', 'heatmap', 'highlight', 'flow', 'overlay', 'compare']
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from regard.errors import UnknownNameError
from regard.views.kind import ViewKind

__all__ = ["KINDS", "ViewKind", "command_line_kinds", "finding_kinds", "view_kind"]


def _discover_kinds() -> Mapping[str, ViewKind]:
    """The registrations of all folders of this package, by name, in the order of their tabs."""
    modules = [import_module(f"{__name__}.{folder.name}") for folder in iter_modules(__path__)]
    kinds: list[ViewKind] = sorted((module.KIND for module in modules), key=lambda kind: kind.order)
    return MappingProxyType({kind.name: kind for kind in kinds})


KINDS: Mapping[str, ViewKind] = _discover_kinds()


def view_kind(name: str) -> ViewKind:
    """The kind of this name."""
    if name not in KINDS:
        raise UnknownNameError("view", name, [*KINDS])
    return KINDS[name]


def command_line_kinds() -> tuple[str, ...]:
    """The names that `regard look --view` offers."""
    return tuple(kind.name for kind in KINDS.values() if kind.in_command_line)


def finding_kinds() -> tuple[str, ...]:
    """The names that a finding may give to its picture."""
    return tuple(kind.name for kind in KINDS.values() if kind.in_findings)
