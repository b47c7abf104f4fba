"""A rectangle of one head's weights, and the values that recomputing weights returns."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError


@dataclass(frozen=True)
class Region:
    """Some rows and columns of one head of one example, pooled to cells of zoom x zoom weights.

    >>> from regard.kernels.observe import Region
    >>> Region(head=3, rows=range(0, 100), columns=range(50, 100), zoom=8).cells
    (13, 7)
    """

    rows: range
    columns: range
    head: int = 0
    example: int = 0
    zoom: int = 1

    @property
    def cells(self) -> tuple[int, int]:
        """The number of cells down and across; the last ones may be partial."""
        return -(-len(self.rows) // self.zoom), -(-len(self.columns) // self.zoom)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise an InputError unless the region lies within a call of these sizes."""
        if not hasattr(self.zoom, "__index__") or self.zoom < 1:
            raise InputError(
                f"expected a zoom of at least 1, got {self.zoom}; give a whole number, 1 is every "
                "weight"
            )
        inside = 0 <= self.example < batch and 0 <= self.head < heads
        for side, size in ((self.rows, queries), (self.columns, keys)):
            inside &= side.step == 1 and 0 <= side.start <= side.stop <= size
        if not inside:
            raise InputError(
                f"expected a region within batch={batch} head={heads} query={queries} key={keys}, "
                f"got {self}; cut its rows and columns to what the call has, with a step of 1"
            )


@dataclass(frozen=True, eq=False)
class Pooled:
    """The mean and the largest weight of each cell; at zoom 1 both are the weights themselves.

    A cell at the far edges may be partial; its mean is over the pairs that it holds.
    """

    mean: Float[Tensor, "cell_row cell_column"]
    largest: Float[Tensor, "cell_row cell_column"]


@dataclass(frozen=True, eq=False)
class Received:
    """The weight that keys received in one call.

    `total` sums each key's weight over all queries, without what went to a sink. `by_label` is each
    query's mass on the keys of each label; None if the caller gave no labels.
    """

    total: Float[Tensor, "batch head key"]
    by_label: Float[Tensor, "batch head query label"] | None


def cell_counts(length: int, side: int) -> Int[Tensor, " cell"]:
    """The number of items in each cell if `length` items are cut into cells of `side`."""
    counts = torch.full((-(-length // side),), side)
    counts[-1:] = (length - 1) % side + 1
    return counts
