"""The maps of one site as a view needs them: every weight, or cells of a long map, head by head.

A map with up to `EXACT_TOKENS` tokens on a side is shown weight by weight. A longer one is shown in
cells: the mean and the largest weight of squares of 2, 4, 8 … tokens, at most 512 on a side.
`TraceMaps` reads a trace that is in memory, `StoredMaps` a scene that was saved; both have the same
methods, so that whoever draws need not know which it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, NotFiniteError
from regard.types import AttentionMap, DenseWeights, RecomputableWeights, SummaryOnly
from regard.types.plain_softmax import is_plain_softmax, log_weight_factors, softmax_weights
from regard.views.encoding import LogFactors, decode
from regard.views.kind import EXACT_TOKENS

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

MOST_CELLS = 512  # cells on a side of a long map
THUMBNAIL_SIDE = 32  # most cells on a side of a thumbnail


@dataclass(frozen=True)
class Window:
    """Some rows and columns [start, stop) of a head of a long map, to be held exactly."""

    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]


class TraceMaps:
    """The maps of one site of a trace; weights are computed when they are asked for."""

    def __init__(
        self, attention_map: AttentionMap, whole: int = EXACT_TOKENS, *, mended: bool = False
    ) -> None:
        if isinstance(attention_map.source, SummaryOnly) and attention_map.atlas is None:
            raise InputError(
                f"the map of {attention_map.site!r} keeps neither weights nor an atlas; watch "
                "again with keep='windows' or keep='dense'"
            )
        self._map = attention_map
        self._whole = whole
        self._cell_side = _cell_side(attention_map, whole)
        self.mended = mended

    def mend(self) -> "TraceMaps":
        """The same maps, with weights that are not finite or negative shown as 0.

        A report must be able to show what is wrong; its caption says that weights were mended.
        """
        return self if _is_sound(self._map) else TraceMaps(self._map, self._whole, mended=True)

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of weights in one cell: (1, 1) where all weights are shown."""
        return self._cell_side, self._cell_side

    def pooled(self, heads: range) -> tuple[Floats, Floats]:
        """The mean and the largest weight of each cell of some heads."""
        source = self._map.source
        if (
            self._cell_side == 1
            and isinstance(source, RecomputableWeights)
            and is_plain_softmax(source)
        ):
            weights = self._checked_array(softmax_weights(source, heads))
            return weights, weights
        rows, columns = (range(size) for size in self._map.shape[1:])
        pooled = [self._map.window(head, rows, columns, self._cell_side) for head in heads]
        mean = self._checked_array(torch.stack([head.mean for head in pooled]))
        if self._cell_side == 1:
            return mean, mean
        return mean, self._checked_array(torch.stack([head.largest for head in pooled]))

    def log_factors(self, heads: range) -> list[LogFactors] | None:
        """The factors of the logarithms of heads; None if they are not known or not exact."""
        source = self._map.source
        known = isinstance(source, RecomputableWeights) and is_plain_softmax(source)
        if not known or self._cell_side > 1 or self.mended:
            return None
        assert isinstance(source, RecomputableWeights)
        return [
            LogFactors(*(to_array(factor) for factor in log_weight_factors(source, head)))
            for head in heads
        ]

    def window(self, window: Window) -> Floats:
        """The exact weights of a part of a head."""
        part = self._map.window(window.head, range(*window.rows), range(*window.columns))
        return self._checked_array(part.mean)

    def _checked_array(self, weights: Tensor) -> Floats:
        """The weights as an array; refuses, or mends, those that cannot be drawn."""
        array = to_array(weights)
        if self.mended:
            return np.maximum(np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0), 0)
        least = array.min(initial=0)
        with np.errstate(invalid="ignore"):  # of infinity minus infinity, which is refused below
            total = array.sum(dtype=np.float64)  # finite weights cannot overflow this sum
        if not np.isfinite(total):
            raise NotFiniteError(
                f"the weights of {self._map.site!r} hold NaN or infinity; mend what computes them, "
                "or see with regard.report where they are"
            )
        if least < 0:
            raise InputError(
                f"expected weights of 0 and more at {self._map.site!r}, got {least:.3g}; show "
                "their size with .abs(), or two traces with compare"
            )
        return array


class StoredMaps:
    """The maps of one site of a saved scene; blobs are decoded when they are asked for."""

    def __init__(self, site: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        self._site, self._blobs = site, blobs

    @property
    def mended(self) -> bool:
        """True if some weights were not finite or negative when the scene was saved."""
        return bool(self._site.get("mended"))

    def mend(self) -> "StoredMaps":
        """The same maps: what was saved is sound."""
        return self

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of weights in one cell."""
        rows, columns = self._site["cells"]
        return rows, columns

    def pooled(self, heads: range) -> tuple[Floats, Floats]:
        """The mean and the largest weight of each cell of some heads."""
        shape = self._shape(self._site["cells"])
        mean = np.stack([decode(self._blobs[self._site["maps"][head]], shape) for head in heads])
        stored = self._site["largest"]
        if stored is None:
            return mean, mean
        shape = self._shape(stored["cells"])
        largest = np.stack([decode(self._blobs[stored["maps"][head]], shape) for head in heads])
        # Largest weights may be stored for larger cells than means: repeat them to the same size.
        for axis, (side, cell) in enumerate(zip(stored["cells"], self.cells, strict=True), 1):
            largest = largest.repeat(side // cell, axis).take(range(mean.shape[axis]), axis)
        return mean, largest

    def _shape(self, cells: Sequence[int]) -> tuple[int, int]:
        """The number of cells of these sides in the rows and in the columns of the map."""
        rows, columns = (
            sum(stop - start for start, stop in self._site[axis]["runs"])
            for axis in ("rows", "columns")
        )
        return -(-rows // cells[0]), -(-columns // cells[1])

    def log_factors(self, heads: range) -> list[LogFactors] | None:
        """None: the factors are not stored."""
        return None

    def window(self, window: Window) -> Floats:
        """The exact weights of a part of a head, which must be one that the scene holds."""
        for stored in self._site["windows"]:
            if read_window(stored) == window:
                rows, columns = window.rows, window.columns
                shape = (rows[1] - rows[0], columns[1] - columns[0])
                return decode(self._blobs[stored["blob"]], shape)
        raise InputError(
            f"this scene holds no {window}; it has {len(self._site['windows'])} others"
        )


Maps = TraceMaps | StoredMaps


def thumbnails(levels: Bytes, size: tuple[int, int]) -> Bytes:
    """Maps (head query key) of byte levels made small: the largest level of each part."""
    return _largest_of_parts(_largest_of_parts(levels, size[0], 1), size[1], 2)


def _largest_of_parts(levels: Bytes, parts: int, axis: int) -> Bytes:
    """The largest level of each of some equal parts of an axis; a cell may belong to two parts."""
    length = levels.shape[axis]
    starts = np.arange(parts) * length // parts
    stops = -(-np.arange(1, parts + 1) * length // parts)
    largest: Bytes = levels.take(starts, axis)
    for step in range(1, int((stops - starts).max())):
        following = levels.take(np.minimum(starts + step, stops - 1), axis)
        np.maximum(largest, following, out=largest)
    return largest


def _is_sound(attention_map: AttentionMap) -> bool:
    """True if all weights are finite and none is negative, as far as their source says."""
    source = attention_map.source
    if isinstance(source, RecomputableWeights):
        terms = (source.query, source.key, source.lse.nan_to_num(nan=torch.inf, neginf=0.0))
        return all(bool(term.isfinite().all()) for term in terms)
    if isinstance(source, DenseWeights):
        return bool(source.weights.isfinite().all()) and bool((source.weights >= 0).all())
    return attention_map.atlas is None or bool(attention_map.atlas.mean.isfinite().all())


def _cell_side(attention_map: AttentionMap, whole: int) -> int:
    """The side of a cell: 1 for short maps, else a power of two that the atlas can answer."""
    size = max(attention_map.shape[1:])
    if size <= whole and not isinstance(attention_map.source, SummaryOnly):
        return 1
    side = 1
    while -(-size // side) > MOST_CELLS:
        side *= 2
    atlas = attention_map.atlas
    return side if atlas is None else max(side, atlas.rows, atlas.columns)


def to_array(numbers: Tensor) -> Floats:
    """A tensor as float32 on the CPU, where pictures are made."""
    array: Floats = numbers.detach().to("cpu", torch.float32).contiguous().numpy()
    return array


def read_window(stored: Mapping[str, Any]) -> Window:
    """The window that an entry of a scene's header describes."""
    return Window(stored["head"], tuple(stored["rows"]), tuple(stored["columns"]))
