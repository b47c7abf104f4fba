"""The numbers of attention over a picture: a weight for each patch, row by row."""

from dataclasses import dataclass

from regard.errors import InputError
from regard.views.captions import Sentence, join_sentences, percent, place_said, scale_said
from regard.views.numbers.grid import shades
from regard.views.numbers.highlight import label_at
from regard.views.numbers.reading import Floats, row_labels
from regard.views.scene import Picture, Scene, Site, Traced
from regard.views.state import State


@dataclass(frozen=True, eq=False)
class Cells:
    """Weights of the patches of a picture, laid out as they lie; `steps` are the rows' names."""

    weights: Floats
    shades: Floats
    steps: tuple[str, ...]
    elsewhere: float
    picture: Picture | None
    caption: str


def cells(scene: Scene, state: State) -> Cells:
    """Where the pinned row looked in the picture, or all rows on average."""
    traced = scene.trace(state.trace)
    site = traced.site(state.site)
    (height, width), columns = patches(traced, site)
    weights = scene.weights(state.trace, state.site, state.head)
    rows = row_labels(traced, site, state)
    said: list[Sentence] = [place_said(site, state.head)]
    if state.place is None:
        line, told = weights.mean(0), ("caption.image.all", "")
    else:
        index = label_at(rows, state.place, site.name, "row")
        run = slice(rows[index].start, rows[index].stop)
        line, told = weights[run].mean(0), ("caption.image.row", rows[index].text)
    laid = line[columns].reshape(height, width)
    elsewhere = max(0.0, float(line.sum() - laid.sum()))
    said.append((told[0], {"token": told[1], "elsewhere": percent(elsewhere)}))
    said.append(scale_said(state, float(laid.max(initial=0))))
    return Cells(
        laid,
        shades(laid, "linear" if state.scale == "row" else state.scale),
        tuple(each.text for each in rows),
        elsewhere,
        traced.pictures.get(site.columns.stream),
        join_sentences(state.language, said),
    )


def patches(traced: Traced, site: Site) -> tuple[tuple[int, int], list[int]]:
    """The grid that a site looks at, and the column of each of its patches."""
    stream = traced.streams[site.columns.stream]
    if stream.grid is None or site.long:
        raise InputError(
            f"the columns of {site.name!r} are not patches of a picture; give their tokens a grid, "
            "or choose a site that looks at an image"
        )
    count = stream.grid[0] * stream.grid[1]
    place_of = {place: index for index, place in enumerate(site.columns.places)}
    wanted = range(len(stream) - count, len(stream))
    if not all(place in place_of for place in wanted):
        raise InputError(
            f"{site.name!r} sees only some of the {count} patches of its picture; show a heatmap"
        )
    return stream.grid, [place_of[place] for place in wanted]
