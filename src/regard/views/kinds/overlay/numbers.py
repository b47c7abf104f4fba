"""The numbers of attention over an image: a weight for each patch, in the grid of the patches."""

from dataclasses import dataclass

from regard.errors import InputError
from regard.views.captions import Sentence, join_sentences, percent, scale_sentence, site_sentence
from regard.views.labelled_map import Floats, label_at, row_labels, shade_weights
from regard.views.scene import Picture, Scene, SceneSite, SceneTrace
from regard.views.state import ViewState


@dataclass(frozen=True, eq=False)
class OverlayNumbers:
    """Weights of the patches in their grid; `steps` are the labels of the rows.

    `elsewhere` is the weight on keys that are no patches, such as a class token.
    """

    weights: Floats
    shades: Floats
    steps: tuple[str, ...]
    elsewhere: float
    picture: Picture | None
    caption: str


def overlay_numbers(scene: Scene, state: ViewState) -> OverlayNumbers:
    """The weights of the pinned row over the patches of its image, or the mean of all rows."""
    trace = scene.trace(state.trace)
    site = trace.site(state.site)
    (height, width), columns = patch_columns(trace, site)
    weights = scene.weights(state.trace, state.site, state.head)
    rows = row_labels(trace, site, state)
    if state.place is None:
        line, key, token = weights.mean(0), "caption.overlay.all", ""
    else:
        index = label_at(rows, state.place, site.name, "row")
        run = slice(rows[index].start, rows[index].stop)
        line, key, token = weights[run].mean(0), "caption.overlay.row", rows[index].text
    patches = line[columns].reshape(height, width)
    elsewhere = max(0.0, float(line.sum() - patches.sum()))
    sentences: list[Sentence] = [
        site_sentence(site, state.head),
        (key, {"token": token, "elsewhere": percent(elsewhere)}),
        scale_sentence(state, float(patches.max(initial=0))),
    ]
    return OverlayNumbers(
        patches,
        # A row of the grid is no row of the map, so the scale "row" means linear here.
        shade_weights(patches, "linear" if state.scale == "row" else state.scale),
        tuple(label.text for label in rows),
        elsewhere,
        trace.pictures.get(site.columns.stream),
        join_sentences(state.language, sentences),
    )


def patch_columns(trace: SceneTrace, site: SceneSite) -> tuple[tuple[int, int], list[int]]:
    """The grid (rows, columns) of a site's image, and the column of the map of each patch."""
    stream = trace.streams[site.columns.stream]
    if stream.grid is None or site.long:
        raise InputError(
            f"the columns of {site.name!r} are not patches of a picture; give their rows and "
            "columns, such as grid=(14, 14), or choose a site that looks at an image"
        )
    count = stream.grid[0] * stream.grid[1]
    column_of = {position: index for index, position in enumerate(site.columns.positions)}
    patches = range(len(stream) - count, len(stream))  # after class tokens and the like
    if not all(position in column_of for position in patches):
        raise InputError(
            f"{site.name!r} sees only some of the {count} patches of its picture; show a heatmap"
        )
    return stream.grid, [column_of[position] for position in patches]
