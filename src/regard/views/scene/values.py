"""A scene: traces ready to be drawn, which knows nothing of colours or HTML."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.errors import InputError, UnknownNameError
from regard.types import Axis, Gap
from regard.types.finding import Finding
from regard.views.scene.maps import THUMB, Floats, Maps, Window
from regard.views.scene.streams import TokenStream

HELD = 1 << 28  # bytes of maps that are kept when they have been looked at


@dataclass(frozen=True, eq=False)
class SceneSite:
    """The maps of one site with their rows and columns; an aggregate is a site of one head."""

    name: str
    kind: str
    rows: Axis
    columns: Axis
    heads: int
    maps: Maps
    produced: Axis | None = None
    numbers: tuple[int, ...] | None = None
    badges: tuple[tuple[str, ...], ...] | None = None
    windows: tuple[Window, ...] = ()
    layer: int | None = None

    @property
    def long(self) -> bool:
        """Whether only cells are shown, not every weight."""
        return self.maps.cells != (1, 1)

    @property
    def thumb(self) -> tuple[int, int]:
        """Height and width of its thumbnails."""
        sizes = (len(self.rows), len(self.columns))
        cells = (-(-size // side) for size, side in zip(sizes, self.maps.cells, strict=True))
        height, width = (min(THUMB, size) for size in cells)
        return height, width


@dataclass(frozen=True)
class Picture:
    """An image file that a stream of patches was cut from."""

    type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class SceneTrace:
    """One trace of a scene."""

    name: str
    streams: Mapping[str, TokenStream]
    sites: tuple[SceneSite, ...]
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()

    def site(self, name: str | None) -> SceneSite:
        """The site of this name; without one, the first."""
        if name is None:
            return self.sites[0]
        for each in self.sites:
            if each.name == name:
                return each
        raise UnknownNameError("attention site", name, [each.name for each in self.sites])


@dataclass(frozen=True, eq=False)
class Scene:
    """The data of one trace ready to be drawn, of two to compare, or of a report.

    `findings` are those of a report, None in every other scene; their `example` is the number of
    the trace of this scene that shows them.
    """

    traces: tuple[SceneTrace, ...]
    title: str = ""
    alignments: Mapping[tuple[str, str], tuple[tuple[int, int, int, int], ...]] | None = None
    more: str | None = None
    findings: tuple[Finding, ...] | None = None
    _held: "OrderedDict[tuple[int, str, int], Floats]" = field(default_factory=OrderedDict)

    def trace(self, index: int) -> SceneTrace:
        """The trace of this number."""
        if not 0 <= index < len(self.traces):
            raise InputError(
                f"no trace {index}; this scene has {len(self.traces)}, numbered from 0"
            )
        return self.traces[index]

    def weights(self, trace: int, site: str | None, head: int | None) -> Floats:
        """The weights of a head, or their mean over heads; of a long map, those of its cells."""
        place = self.trace(trace).site(site)
        if head is not None and not 0 <= head < place.heads:
            raise InputError(
                f"no head {head} at {place.name!r}; it has heads 0 to {place.heads - 1}"
            )
        key = (trace, place.name, -1 if head is None else head)
        if key not in self._held:
            self._held[key] = _mean(place) if head is None else _one(place, head)
            while len(self._held) > 1 and sum(e.nbytes for e in self._held.values()) > HELD:
                self._held.popitem(last=False)
        return self._held[key]


def _mean(site: SceneSite) -> Floats:
    total = _one(site, 0).astype(np.float64)
    for head in range(1, site.heads):
        total += _one(site, head)
    return (total / site.heads).astype(np.float32)


def _one(site: SceneSite, head: int) -> Floats:
    found: Floats = site.maps.pooled(range(head, head + 1))[0][0]
    return found
