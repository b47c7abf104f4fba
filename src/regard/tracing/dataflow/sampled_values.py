"""Reports deformable attention: samples of a picture are remembered until weights sum them."""

from typing import Any

from torch import Tensor

from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.gaps import Gaps
from regard.tracing.dataflow.origins import (
    ManualWeights,
    StreamPair,
    StreamSide,
    WeightedValues,
    origin_of,
)
from regard.tracing.dataflow.position_mixing import ReportWeights
from regard.tracing.dataflow.propagation import Args, Kwargs, other
from regard.tracing.dataflow.sampling import (
    MAX_NUMBERS,
    TOO_LARGE,
    UNCLEAR,
    Sampling,
    count_numbers,
    fits,
    gives_context,
    map_of_cells,
    read_sampling,
)
from regard.tracing.readable import UNREADABLE, are_readable
from regard.tracing.sites import Sites


class SampledValues:
    """The samples that the running module took, until weights of the points meet them."""

    def __init__(self, sites: Sites, gaps: Gaps, report: ReportWeights) -> None:
        self.sites, self._gaps, self._report = sites, gaps, report
        self._samplings = list[Sampling]()  # of the running module, not yet weighted

    def note(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Values read at points of a picture: remembered until weights of the points meet them."""
        other(name, args, kwargs, result)
        site = self.sites.here
        if self._samplings and self._samplings[-1].site != site:
            self._samplings.clear()
        if name == "grid_sample" and not is_backward():
            sampling = read_sampling(
                site, origin_of(args[0] if args else None).stream, args, kwargs
            )
            self._samplings += [] if sampling is None else [sampling]

    def meet_weights(self, stage: WeightedValues, weighted: Tensor, context: Any) -> bool:
        """Report deformable attention if weighted samples are summed; True if they are samples."""
        samplings, site = self._samplings, self.sites.here
        if not samplings or samplings[-1].site != site or stage.weights is None:
            return False
        if not fits(samplings, stage.factor, weighted):
            return False
        if not are_readable((stage.factor, context)):
            self._gaps.add(site, UNREADABLE)
        elif count_numbers(samplings) > MAX_NUMBERS:
            self._gaps.add(site, TOO_LARGE)
        else:
            cells = map_of_cells(samplings, stage.factor)
            if gives_context(samplings, cells, context):
                self._report(self._cells_as_weights(cells, stage.weights.pair.left.stream), None)
            else:
                self._gaps.add(site, UNCLEAR)
        self._samplings = []
        return True

    def _cells_as_weights(self, cells: Tensor, queries: str | None) -> ManualWeights:
        """A map of cells as weights; the cells of several levels are a stream of their own."""
        keys = self._samplings[0].stream
        if keys is not None and len(self._samplings) > 1:
            keys = f"{keys} levels"  # no single grid of rows and columns holds them
        _, count, columns = cells.shape
        left = StreamSide(keys if count == columns else queries, -2)
        batch = self.sites.batch
        rows = batch if batch and len(cells) % batch == 0 else len(cells)
        weights = cells.unflatten(0, (rows, -1))
        return ManualWeights(weights, weights, StreamPair(left, StreamSide(keys, -1), True))
