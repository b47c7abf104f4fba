"""A scene: traces ready to be drawn, without anything about colours or HTML."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.errors import InputError, UnknownNameError
from regard.types import Axis, Gap
from regard.types.finding import Finding
from regard.views.scene.maps import THUMBNAIL_SIDE, Floats, Maps, Window
from regard.views.scene.streams import TokenStream

CACHED_BYTES = 1 << 28  # of weights that are kept after they were computed


@dataclass(frozen=True, eq=False)
class SceneSite:
    """The maps of one site with their rows and columns; an aggregate is a site of one head.

    `produced` are the tokens that the rows led to, where they are known. `numbers` are the heads'
    numbers in the model, `badges` short texts for each head, `windows` the parts of a long map that
    a page holds exactly, and `layer` the index among the sites of the same kind.
    """

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
        """True if only cells are shown, not every weight."""
        return self.maps.cells != (1, 1)

    @property
    def thumb(self) -> tuple[int, int]:
        """Height and width of the thumbnails of its heads."""
        sizes = (len(self.rows), len(self.columns))
        cells = (-(-size // side) for size, side in zip(sizes, self.maps.cells, strict=True))
        height, width = (min(THUMBNAIL_SIDE, size) for size in cells)
        return height, width


@dataclass(frozen=True)
class Picture:
    """An image file that a stream of patches was cut from."""

    type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class SceneTrace:
    """One trace of a scene: its streams of tokens, its sites, and the pictures it looked at."""

    name: str
    streams: Mapping[str, TokenStream]
    sites: tuple[SceneSite, ...]
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()

    def site(self, name: str | None) -> SceneSite:
        """The site of this name; without one, the first."""
        if not self.sites:
            raise InputError("this trace has no attention site to draw")
        if name is None:
            return self.sites[0]
        for site in self.sites:
            if site.name == name:
                return site
        raise UnknownNameError("attention site", name, [site.name for site in self.sites])


@dataclass(frozen=True, eq=False)
class Scene:
    """The data of one trace ready to be drawn, of two to compare, or of a report.

    `alignments` say, for two traces, which tokens of their streams spell the same text. `more` is
    Python code that shows what the page of a long text leaves out. `findings` are those of a
    report, None in every other scene; their `example` is the index of a trace of this scene.
    """

    traces: tuple[SceneTrace, ...]
    title: str = ""
    alignments: Mapping[tuple[str, str], tuple[tuple[int, int, int, int], ...]] | None = None
    more: str | None = None
    findings: tuple[Finding, ...] | None = None
    _cache: "OrderedDict[tuple[int, str, int], Floats]" = field(default_factory=OrderedDict)

    def trace(self, index: int) -> SceneTrace:
        """The trace of this index."""
        if not 0 <= index < len(self.traces):
            raise InputError(
                f"no trace {index}; this scene has {len(self.traces)}, numbered from 0"
            )
        return self.traces[index]

    def weights(self, trace: int, site: str | None, head: int | None) -> Floats:
        """The weights of a head, or their mean over heads; of a long map, those of its cells."""
        scene_site = self.trace(trace).site(site)
        if head is not None and not 0 <= head < scene_site.heads:
            raise InputError(
                f"no head {head} at {scene_site.name!r}; it has heads 0 to {scene_site.heads - 1}"
            )
        key = (trace, scene_site.name, -1 if head is None else head)
        if key not in self._cache:
            self._cache[key] = (
                _mean_over_heads(scene_site) if head is None else _head_weights(scene_site, head)
            )
            while (
                len(self._cache) > 1 and sum(w.nbytes for w in self._cache.values()) > CACHED_BYTES
            ):
                self._cache.popitem(last=False)
        return self._cache[key]


def _mean_over_heads(site: SceneSite) -> Floats:
    """The mean weights over all heads, summed one head at a time to hold only one in memory."""
    total = _head_weights(site, 0).astype(np.float64)
    for head in range(1, site.heads):
        total += _head_weights(site, head)
    return (total / site.heads).astype(np.float32)


def _head_weights(site: SceneSite, head: int) -> Floats:
    """The weights of one head; of a long map, the means of its cells."""
    weights: Floats = site.maps.pooled(range(head, head + 1))[0][0]
    return weights
