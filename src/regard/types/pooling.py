"""Weights pooled into cells: from the weights themselves, or from an atlas that is fine enough.

A picture of a long text shows cells of zoom x zoom weights, each as its mean and its largest
weight. `pool_weights` makes them from weights. An atlas already holds such cells, of 8 x 8 for
instance, so a zoom of 32 can be read off 4 x 4 cells of it without computing any weight again:
that is what `pool_from_atlas` does where the cells fit.
"""

from collections.abc import Callable
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe import Atlas, Pooled, Region
from regard.kernels.observe.region import cell_counts


def pool_weights(weights: Float[Tensor, "query key"], zoom: int) -> Pooled:
    """The mean and the largest of each cell of zoom x zoom weights; edge cells may be partial."""
    if zoom == 1:
        return Pooled(weights, weights)
    rows, columns = weights.shape
    cells = (-(-rows // zoom), zoom, -(-columns // zoom), zoom)
    padded = weights.new_full((cells[0] * zoom, cells[2] * zoom), torch.nan)
    padded[:rows, :columns] = weights
    grid = padded.view(cells).transpose(1, 2).flatten(2)
    return Pooled(grid.nanmean(dim=-1), grid.nan_to_num(nan=-torch.inf).amax(dim=-1))


def pool_from_atlas(atlas: Atlas, region: Region, sizes: tuple[int, int]) -> Pooled | None:
    """The region pooled from the cells of an atlas; None where the cells do not fit.

    `sizes` are the rows and columns of the map. The cells fit if their sides divide the zoom, and
    if the region begins and ends between cells, or ends with the map. The mean is over the weights
    that exist, so that cells at the edge, which hold fewer, count for less.
    """
    sides, runs = (atlas.rows, atlas.columns), (region.rows, region.columns)
    cell_slices = [_cells_of(*axis) for axis in zip(runs, sides, sizes, strict=True)]
    down, across = (region.zoom // side for side in sides)
    if any(region.zoom % side for side in sides) or None in cell_slices or 0 in region.cells:
        return None
    index = (region.head, *cell_slices)
    rows, columns = (
        cell_counts(len(run), side).to(atlas.mean) for run, side in zip(runs, sides, strict=True)
    )
    totals = atlas.mean[index] * rows[:, None] * columns
    totals = _reduce_blocks(_split_blocks(totals, down, across, 0.0), torch.add)
    largest = _split_blocks(atlas.largest[index], down, across, -torch.inf)
    rows, columns = (cell_counts(len(run), region.zoom).to(totals) for run in runs)
    return Pooled(totals / rows[:, None] / columns, _reduce_blocks(largest, torch.maximum))


def _cells_of(run: range, side: int, size: int) -> slice | None:
    """The cells that a run of rows or columns consists of; None if it cuts one."""
    if run.start % side or (run.stop % side and run.stop != size):
        return None
    return slice(run.start // side, -(-run.stop // side))


def _split_blocks(
    cells: Float[Tensor, "cell_row cell_column"], down: int, across: int, fill: float
) -> Float[Tensor, "row down column across"]:
    """The cells in blocks of down x across, padded with `fill` at the far edges."""
    rows, columns = cells.shape
    padded = F.pad(cells, (0, -columns % across, 0, -rows % down), value=fill)
    return padded.view(-(-rows // down), down, -(-columns // across), across)


def _reduce_blocks(
    blocks: Float[Tensor, "row down column across"], combine: Callable[[Tensor, Tensor], Tensor]
) -> Float[Tensor, "row column"]:
    """Each block as one number."""
    # Adding a few long rows is far faster in torch than reducing many short axes.
    rows = reduce(combine, blocks.unbind(1))
    return reduce(combine, rows.unbind(2))
