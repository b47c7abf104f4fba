"""The numbers of the overview: a small map of every head of every site."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.views.captions import check_label, join_sentences
from regard.views.encoding import byte_levels, from_levels
from regard.views.labelled_map import shade_weights
from regard.views.scene import Scene
from regard.views.scene.maps import thumbnails
from regard.views.state import ViewState


@dataclass(frozen=True, eq=False)
class Thumbnail:
    """One head's map made small: each cell shows the largest weight of its part.

    `head` is the index in the map, `number` the head's number in the model; they differ where only
    some heads were captured.
    """

    site: str
    kind: str
    head: int
    number: int
    shades: NDArray[np.float32]
    badges: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class HeadsNumbers:
    """The thumbnails of all heads, one row for each site."""

    rows: tuple[tuple[Thumbnail, ...], ...]
    caption: str


def heads_numbers(scene: Scene, state: ViewState) -> HeadsNumbers:
    """Thumbnails of all heads of all sites; each is shaded by its own largest weight."""
    rows = []
    for site in scene.trace(state.trace).sites:
        row = []
        for head in range(site.heads):
            pooled = site.maps.pooled(range(head, head + 1))[1]
            # Through the byte levels of the page, so that page and figure show the same shades.
            largest = from_levels(thumbnails(byte_levels(pooled), site.thumb))[0]
            number = head if site.numbers is None else site.numbers[head]
            badges = () if site.badges is None else site.badges[head]
            badges = tuple(check_label(badge, state.language) for badge in badges)
            shades = shade_weights(largest, state.scale)
            row.append(Thumbnail(site.name, site.kind, head, number, shades, badges))
        rows.append(tuple(row))
    return HeadsNumbers(tuple(rows), join_sentences(state.language, [("caption.heads", {})]))
