"""The maps of one site as a view needs them: every weight, or cells of a long map, head by head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.errors import InputError, NotFiniteError
from regard.types import AttentionMap, Recomputable, Summary
from regard.views.code import Scores, byte_levels, decode

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

WHOLE = 1024  # tokens on a side up to which every weight is shown
CELLS = 512  # cells on a side of a longer map
THUMB = 32  # cells on a side of a thumbnail


@dataclass(frozen=True)
class Window:
    """Some rows and columns of a head of a long map, to be held exactly."""

    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]


class Seen:
    """The maps of a trace's site, read when they are asked for."""

    def __init__(self, seen: AttentionMap, whole: int = WHOLE) -> None:
        if isinstance(seen.source, Summary) and seen.atlas is None:
            raise InputError(
                f"the map of {seen.site!r} keeps neither weights nor an atlas; watch again with "
                "keep='windows' or keep='dense'"
            )
        self._seen = seen
        self._zoom = _zoom(seen, whole)

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of weights in one cell: one each where all weights are shown."""
        return self._zoom, self._zoom

    def pooled(self, heads: range) -> tuple[Floats, Floats]:
        """The mean and the largest weight of each cell of some heads."""
        source = self._seen.source
        if self._zoom == 1 and isinstance(source, Recomputable) and _is_plain(source):
            mean = self._checked(_softmax(source, heads))
            return mean, mean
        rows, columns = (range(size) for size in self._seen.shape[1:])
        found = [self._seen.window(head, rows, columns, self._zoom) for head in heads]
        mean = self._checked(torch.stack([each.mean for each in found]))
        if self._zoom == 1:
            return mean, mean
        return mean, self._checked(torch.stack([each.largest for each in found]))

    def scores(self, heads: range) -> list[Scores] | None:
        """The factors of the weights of heads, where they are a softmax of plain scores."""
        source = self._seen.source
        if not isinstance(source, Recomputable) or self._zoom > 1 or not _is_plain(source):
            return None
        found, scale = [], np.float32(_scale(source))
        for head in heads:
            key = source.key[head * len(source.key) // len(source.query)]
            lse = source.lse[head].nan_to_num(neginf=0.0)  # of rows that see nothing
            found.append(Scores(_array(source.query[head]) * scale, _array(key), -_array(lse)))
        return found

    def window(self, window: Window) -> Floats:
        """The weights of a part of a head."""
        found = self._seen.window(window.head, range(*window.rows), range(*window.columns))
        return self._checked(found.mean)

    def _checked(self, weights: Tensor) -> Floats:
        found = _array(weights)
        least = found.min(initial=0)
        if not np.isfinite(found.sum()):
            raise NotFiniteError(
                f"the weights of {self._seen.site!r} hold NaN or infinity; mend what computes them"
            )
        if least < 0:
            raise InputError(
                f"expected weights of 0 and more at {self._seen.site!r}, got {least:.3g}; show "
                "their size with .abs(), or two traces with compare"
            )
        return found


class Read:
    """The maps of a site of a scene that was saved, decoded when they are asked for."""

    def __init__(self, site: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        self._site, self._blobs = site, blobs

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of weights in one cell."""
        rows, columns = self._site["cells"]
        return rows, columns

    def pooled(self, heads: range) -> tuple[Floats, Floats]:
        """The mean and the largest weight of each cell of some heads, as they were coded."""
        mean = np.stack([decode(self._blobs[self._site["maps"][head]]) for head in heads])
        largest = self._site["largest"]
        if largest is None:
            return mean, mean
        found = np.stack([decode(self._blobs[largest["maps"][head]]) for head in heads])
        for axis, (side, cell) in enumerate(zip(largest["cells"], self.cells, strict=True), 1):
            found = found.repeat(side // cell, axis).take(range(mean.shape[axis]), axis)
        return mean, found

    def scores(self, heads: range) -> list[Scores] | None:
        """Not known any more."""
        return None

    def window(self, window: Window) -> Floats:
        """The weights of a part of a head; only of those that the scene holds."""
        for each in self._site["windows"]:
            if _window(each) == window:
                return decode(self._blobs[each["blob"]])
        raise InputError(
            f"this scene holds no {window}; it has {len(self._site['windows'])} others"
        )


Maps = Seen | Read


def thumbnails(largest: Floats, size: tuple[int, int]) -> Bytes:
    """The largest weight of each part of some maps, as levels."""
    sides = [length / cells for length, cells in zip(largest.shape[1:], size, strict=True)]
    maps = torch.from_numpy(largest)
    if all(side.is_integer() for side in sides):  # far quicker
        return byte_levels(F.max_pool2d(maps, [int(side) for side in sides]).numpy())
    return byte_levels(F.adaptive_max_pool2d(maps, size).numpy())


def _is_plain(source: Recomputable) -> bool:
    """Whether the weights are a softmax of scaled products, maybe masked."""
    return source.scoring.bias is None and source.scoring.softcap is None


def _scale(source: Recomputable) -> float:
    scale = source.scoring.scale
    return source.query.shape[-1] ** -0.5 if scale is None else scale


def _softmax(source: Recomputable, heads: range) -> Tensor:
    """The weights of several heads at once: small ones cost more to ask for than to compute."""
    group = len(source.query) // len(source.key)
    query = source.query[heads.start : heads.stop]
    key = source.key[[head // group for head in heads]]
    lse = source.lse[heads.start : heads.stop, :, None].to(query.dtype)
    found = torch.baddbmm(-lse, query, key.mT, alpha=_scale(source)).exp_()
    mask, (_, rows, columns) = source.scoring.mask, source.sizes
    if mask is None:
        return found
    seen = mask.dense(rows, columns, offset=source.scoring.offset, device=query.device)[0]
    seen = seen[heads.start : heads.stop] if len(seen) > 1 else seen
    return found.masked_fill_(~seen, 0.0)


def _zoom(seen: AttentionMap, whole: int) -> int:
    """The side of a cell: 1 for short maps, else a power of two that the atlas can answer."""
    size = max(seen.shape[1:])
    if size <= whole and not isinstance(seen.source, Summary):
        return 1
    zoom = 1
    while -(-size // zoom) > CELLS:
        zoom *= 2
    return zoom if seen.atlas is None else max(zoom, seen.atlas.rows, seen.atlas.columns)


def _array(numbers: Tensor) -> Floats:
    """On the CPU, where pictures are made."""
    found: Floats = numbers.detach().to("cpu", torch.float32).contiguous().numpy()
    return found


def _window(state: Mapping[str, Any]) -> Window:
    return Window(state["head"], tuple(state["rows"]), tuple(state["columns"]))
