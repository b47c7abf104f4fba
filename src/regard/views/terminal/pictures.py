"""Small maps of all heads, and weights over a picture, two shades in each character."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from regard.text import say
from regard.views.numbers import Cells, Thumb, Thumbs
from regard.views.numbers.reading import Floats
from regard.views.scene import Scene
from regard.views.state import State
from regard.views.terminal.blocks import largest
from regard.views.terminal.ink import Ink, padded

SIDES = (12, 8, 6, 4)
NAME = 12
UPPER = "▀"


def draw_heads(
    shown: Thumbs, scene: Scene, state: State, ink: Ink, width: int
) -> Iterator[Text | Table]:
    """A row of small maps for each site; more heads than fit go on below."""
    count = max(map(len, shown.rows))
    name = min(NAME, width // 4)
    room = width - name - 1
    side = next((each for each in SIDES if count * (each + 1) <= room), SIDES[-1])
    across = max(1, room // (side + 1))
    for row in shown.rows:
        for start in range(0, len(row), across):
            part = row[start : start + across]
            first = _name(part[0], scene, state) if start == 0 else ""
            yield from _strip(part, padded(ink.cut(first, name), name, "left"), side, ink)


def _strip(part: Sequence[Thumb], name: str, side: int, ink: Ink) -> Iterator[Text]:
    """Some heads side by side, their numbers above."""
    blank = " " * cell_len(name)
    numbers = "".join(padded(str(each.number), side + 1, "left") for each in part)
    badges = "".join(
        padded(ink.cut(" ".join(each.badges), side), side + 1, "left") for each in part
    )
    yield Text(f"{name} {numbers}", no_wrap=True, overflow="crop", style="dim")
    lines = [halves(_sized(each.shades, side), ink) for each in part]
    for line in zip(*lines, strict=True):
        yield Text(f"{blank} ", no_wrap=True, overflow="crop") + Text(" ").join(line)
    if badges.strip():
        yield Text(f"{blank} {badges}", no_wrap=True, overflow="crop")


def _name(thumb: Thumb, scene: Scene, state: State) -> str:
    site = scene.trace(state.trace).site(thumb.site)
    if site.layer is None:
        return site.name
    return f"{say(f'kind.{site.kind}', state.language)} {site.layer}"


def _sized(shades: Floats, side: int) -> Floats:
    """A square of shades: larger parts by their strongest shade, smaller ones repeated."""
    height, width = (max(1, -(-size // side)) for size in shades.shape)
    found = largest(shades, height, width)
    rows, columns = (np.arange(side) * size // side for size in found.shape)
    return found[np.ix_(rows, columns)]


def halves(shades: Floats, ink: Ink) -> list[Text]:
    """Lines of characters that each show two rows of shades."""
    if len(shades) % 2:
        shades = np.concatenate([shades, shades[-1:]])
    lines = []
    for upper, lower in zip(shades[::2], shades[1::2], strict=True):
        line = Text(no_wrap=True, overflow="crop")
        for above, below in zip(upper, lower, strict=True):
            if ink.coloured and not ink.plain:
                line.append(UPPER, ink.halves(float(above), float(below)))
            elif ink.coloured:
                line.append(" ", ink.style(float(max(above, below))))
            else:
                line.append(ink.shade(float(max(above, below))))
        lines.append(line)
    return lines


def draw_image(
    shown: Cells, scene: Scene, state: State, ink: Ink, width: int
) -> Iterator[Text | Table]:
    """The patches as they lie, each as large as there is room for."""
    found = largest(shown.shades, *[-(-shown.shades.shape[1] // width)] * 2)
    scale = max(1, min(8, width // found.shape[1], 64 // found.shape[1]))
    yield from halves(found.repeat(scale, 0).repeat(scale, 1), ink)
