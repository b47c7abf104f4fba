"""The overview in the terminal: small maps of all heads, two shades in each character."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from regard.views.captions import site_title
from regard.views.kinds.heads.numbers import HeadsNumbers, Thumbnail
from regard.views.labelled_map import Floats
from regard.views.scene import Scene
from regard.views.state import ViewState
from regard.views.terminal.layout import half_block_lines, max_pool
from regard.views.terminal.style import TerminalStyle, pad

SIDES = (12, 8, 6, 4)  # columns of a thumbnail, the largest that fits
NAME_WIDTH = 12


def draw_heads(
    numbers: HeadsNumbers, scene: Scene, state: ViewState, style: TerminalStyle, width: int
) -> Iterator[Text]:
    """A row of thumbnails for each site; heads that do not fit continue below."""
    count = max(map(len, numbers.rows))
    name_width = min(NAME_WIDTH, width // 4)
    room = width - name_width - 1
    side = next((side for side in SIDES if count * (side + 1) <= room), SIDES[-1])
    across = max(1, room // (side + 1))
    for row in numbers.rows:
        name = site_title(scene.trace(state.trace).site(row[0].site), state.language)
        for start in range(0, len(row), across):
            shown_name = style.cut(name if start == 0 else "", name_width)
            part = row[start : start + across]
            yield from _thumbnail_strip(part, pad(shown_name, name_width, "left"), side, style)


def _thumbnail_strip(
    part: Sequence[Thumbnail], name: str, side: int, style: TerminalStyle
) -> Iterator[Text]:
    """Some heads side by side: their numbers above, their badges below."""
    blank = " " * cell_len(name)
    numbers = "".join(pad(str(thumbnail.number), side + 1, "left") for thumbnail in part)
    badges = "".join(
        pad(style.cut(" ".join(thumbnail.badges), side), side + 1, "left") for thumbnail in part
    )
    yield Text(f"{name} {numbers}", no_wrap=True, overflow="crop", style="dim")
    lines = [half_block_lines(_resize(thumbnail.shades, side), style) for thumbnail in part]
    for line in zip(*lines, strict=True):
        yield Text(f"{blank} ", no_wrap=True, overflow="crop") + Text(" ").join(line)
    if badges.strip():
        yield Text(f"{blank} {badges}", no_wrap=True, overflow="crop")


def _resize(shades: Floats, side: int) -> Floats:
    """A square of shades: larger maps by the strongest of each part, smaller ones repeated."""
    height, width = (max(1, -(-size // side)) for size in shades.shape)
    pooled = max_pool(shades, height, width)
    rows, columns = (np.arange(side) * size // side for size in pooled.shape)
    return pooled[np.ix_(rows, columns)]
