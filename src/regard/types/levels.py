"""Coarser levels of an atlas: the rectangles that its own cells already answer, exactly."""

from collections.abc import Callable
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.observe import Atlas, Pooled, Region
from regard.kernels.observe.region import cell_counts


def read_off(atlas: Atlas, region: Region, sizes: tuple[int, int]) -> Pooled | None:
    """The region pooled from the cells of an atlas of `sizes` rows and columns.

    None where the cells do not fit: their sides must divide the zoom, and the region must begin
    and end between cells, or end with the map. A mean is over the pairs that exist, so that it is
    that of the weights themselves.
    """
    sides, runs = (atlas.rows, atlas.columns), (region.rows, region.columns)
    places = [_cells(*each) for each in zip(runs, sides, sizes, strict=True)]
    down, across = (region.zoom // side for side in sides)
    if any(region.zoom % side for side in sides) or None in places or 0 in region.cells:
        return None
    place = (region.head, *places)
    rows, columns = (
        cell_counts(len(run), side).to(atlas.mean) for run, side in zip(runs, sides, strict=True)
    )
    totals = atlas.mean[place] * rows[:, None] * columns
    totals = _joined(_blocks(totals, down, across, 0.0), torch.add)
    largest = _joined(_blocks(atlas.largest[place], down, across, -torch.inf), torch.maximum)
    rows, columns = (cell_counts(len(run), region.zoom).to(totals) for run in runs)
    return Pooled(totals / rows[:, None] / columns, largest)


def _cells(run: range, side: int, size: int) -> slice | None:
    """The cells that a run of rows or columns consists of; None if it cuts one."""
    if run.start % side or (run.stop % side and run.stop != size):
        return None
    return slice(run.start // side, -(-run.stop // side))


def _blocks(
    cells: Float[Tensor, "cell_row cell_column"], down: int, across: int, fill: float
) -> Float[Tensor, "row down column across"]:
    """Cells in blocks of down x across; what is missing at the far edges is filled up."""
    rows, columns = cells.shape
    padded = F.pad(cells, (0, -columns % across, 0, -rows % down), value=fill)
    return padded.view(-(-rows // down), down, -(-columns // across), across)


def _joined(
    blocks: Float[Tensor, "row down column across"], join: Callable[[Tensor, Tensor], Tensor]
) -> Float[Tensor, "row column"]:
    """Each block as one number: torch joins long rows far faster than it reduces short ones."""
    rows = reduce(join, blocks.unbind(1))
    return reduce(join, rows.unbind(2))
