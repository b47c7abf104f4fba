"""The numbers of the overview: a small map of every head of every site."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.text import say
from regard.views.captions import check_said
from regard.views.code import byte_levels, from_levels
from regard.views.numbers.grid import shades
from regard.views.scene import Scene
from regard.views.scene.maps import thumbnails
from regard.views.state import State


@dataclass(frozen=True, eq=False)
class Thumb:
    """One head's map in small, the largest weight of each part."""

    site: str
    kind: str
    head: int
    number: int
    shades: NDArray[np.float32]
    badges: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Thumbs:
    """All heads, a row for each site."""

    rows: tuple[tuple[Thumb, ...], ...]
    caption: str


def thumbs(scene: Scene, state: State) -> Thumbs:
    """Small maps of all heads of all sites; each is shaded by its own scale."""
    rows = []
    for site in scene.trace(state.trace).sites:
        found = []
        for head in range(site.heads):
            pooled = site.maps.pooled(range(head, head + 1))[1]
            largest = from_levels(thumbnails(byte_levels(pooled), site.thumb))[0]
            number = head if site.numbers is None else site.numbers[head]
            badges = () if site.badges is None else site.badges[head]
            badges = tuple(check_said(each, state.language) for each in badges)
            shade = shades(largest, state.scale)
            found.append(Thumb(site.name, site.kind, head, number, shade, badges))
        rows.append(tuple(found))
    return Thumbs(tuple(rows), say("caption.heads", state.language))
