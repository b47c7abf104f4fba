"""Looks for recorded weights in the maps of traces.

A recorded tensor is cut into slices (query key). A slice is in the traces if a map has the same
slice, or (for maps that stack decoding steps, leave out padding or join blocks) if each of its rows
is a row of a map: the same weights in the same order, keys without weight apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from bench.architectures.recorder import RecordedCall
from regard.types import Trace

__all__ = ["MapIndex"]

TOLERANCE = 2e-5
_ZERO = 1e-30  # a weight that is hidden by a mask, exactly or by underflow
_LARGEST_SLICE = 1 << 22  # numbers; a row comparison of more would take minutes


class MapIndex:
    """All slices and rows of the maps of some traces, ready to be searched."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        slices = defaultdict(list)
        for trace in traces:
            for attention_map in trace.maps:
                weights = attention_map.weights().detach().double()
                slices[tuple(weights.shape[-2:])].append(weights.flatten(0, -3))
        self._slices = {shape: torch.cat(parts) for shape, parts in slices.items()}
        self._rows: dict[int, Tensor] | None = None

    def count_missing(self, call: RecordedCall) -> int:
        """How many slices of a call are in no map, by the reading of its axes that fits best."""
        fewest = None
        for candidate in _read_axes(call):
            missing = sum(not self._has_slice(part) for part in candidate)
            if missing:
                missing = sum(not self.has_rows(part) for part in candidate)
            if not missing:
                return 0
            fewest = missing if fewest is None else min(fewest, missing)
        return fewest or 1

    def _has_slice(self, part: Tensor) -> bool:
        """True if a map has a slice like this."""
        slices = self._slices.get(tuple(part.shape))
        if slices is None:
            return False
        return bool(((slices - part).abs().amax((1, 2)) <= TOLERANCE).any())

    def has_rows(self, part: Tensor, rows: Sequence[int] | None = None) -> bool:
        """True if every row of a slice, or each of those that are named, is a row of a map."""
        index = self._index_rows()
        rows = range(len(part)) if rows is None else rows
        return all(_is_row_of(index, part[row]) for row in rows)

    def _index_rows(self) -> dict[int, Tensor]:
        """The distinct rows of all maps without their zeros, by their length."""
        if self._rows is None:
            rows = defaultdict(list)
            for slices in self._slices.values():
                for row in slices.flatten(0, 1):
                    kept = row[row > _ZERO]
                    rows[len(kept)].append(kept)
            self._rows = {length: torch.stack(parts) for length, parts in rows.items()}
        return self._rows


def _is_row_of(index: dict[int, Tensor], row: Tensor) -> bool:
    """True if a row without its zeros is among the rows of the index."""
    kept = row[row > _ZERO]
    if not len(kept):
        return True  # a query that sees nothing
    rows = index.get(len(kept))
    return rows is not None and bool(((rows - kept).abs().amax(1) <= TOLERANCE).any())


def _read_axes(call: RecordedCall) -> Iterator[Tensor]:
    """The call as slices (slice query key), for each axis that may be the queries'."""
    weights = call.weights.double().movedim(call.axis, -1)
    if weights.dim() == 1:
        weights = weights[None]
    for axis in range(weights.dim() - 2, -1, -1):
        moved = weights.movedim(axis, -2)
        if moved.numel() <= _LARGEST_SLICE:
            yield moved.reshape(-1, *moved.shape[-2:])
    operand = call.operand
    if operand is not None and operand.dim() >= 2:
        slices = operand.double().reshape(-1, *operand.shape[-2:])
        yield slices
        yield slices.mT
