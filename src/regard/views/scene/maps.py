"""The maps of one site as a view needs them: every weight, or cells of a long map, head by head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, NotFiniteError
from regard.types import AttentionMap, Dense, Recomputable, Summary
from regard.views.encoding import Scores, decode
from regard.views.kind import EXACT_TOKENS

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

CELLS = 512  # cells on a side of a longer map
THUMB = 32  # cells on a side of a thumbnail


@dataclass(frozen=True)
class Window:
    """Some rows and columns of a head of a long map, to be held exactly."""

    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]


class TraceMaps:
    """The maps of a trace's site, read when they are asked for."""

    def __init__(
        self, seen: AttentionMap, whole: int = EXACT_TOKENS, *, mended: bool = False
    ) -> None:
        if isinstance(seen.source, Summary) and seen.atlas is None:
            raise InputError(
                f"the map of {seen.site!r} keeps neither weights nor an atlas; watch again with "
                "keep='windows' or keep='dense'"
            )
        self._seen = seen
        self._zoom = _zoom(seen, whole)
        self._whole = whole
        self.mended = mended

    def mend(self) -> "TraceMaps":
        """The same maps, where weights that are no numbers are shown as none; a caption says so.

        A report must be able to show what is wrong.
        """
        return self if _is_sound(self._seen) else TraceMaps(self._seen, self._whole, mended=True)

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
        if self.mended:
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
        if self.mended:
            return np.maximum(np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0), 0)
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


class StoredMaps:
    """The maps of a site of a scene that was saved, decoded when they are asked for."""

    def __init__(self, site: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        self._site, self._blobs = site, blobs

    @property
    def mended(self) -> bool:
        """Whether some weights were no numbers, and are shown as none."""
        return bool(self._site.get("mended"))

    def mend(self) -> "StoredMaps":
        """They were sound when they were coded, or mended then."""
        return self

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


Maps = TraceMaps | StoredMaps


def thumbnails(levels: Bytes, size: tuple[int, int]) -> Bytes:
    """The largest level of each part of some maps (head query key)."""
    return _largest(_largest(levels, size[0], 1), size[1], 2)


def _largest(levels: Bytes, parts: int, axis: int) -> Bytes:
    """The largest level of each part of an axis; neighbours share what both have a part of."""
    length = levels.shape[axis]
    starts = np.arange(parts) * length // parts
    stops = -(-np.arange(1, parts + 1) * length // parts)
    found: Bytes = levels.take(starts, axis)
    for step in range(1, int((stops - starts).max())):
        more = levels.take(np.minimum(starts + step, stops - 1), axis)
        np.maximum(found, more, out=found)
    return found


def _is_sound(seen: AttentionMap) -> bool:
    """Whether all weights are finite and none is negative, as far as their source says."""
    source = seen.source
    if isinstance(source, Recomputable):
        terms = (source.query, source.key, source.lse.nan_to_num(nan=torch.inf, neginf=0.0))
        return all(bool(each.isfinite().all()) for each in terms)
    if isinstance(source, Dense):
        return bool(source.weights.isfinite().all()) and bool((source.weights >= 0).all())
    return seen.atlas is None or bool(seen.atlas.mean.isfinite().all())


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
    if mask is None or _is_open(source):
        return found
    seen = mask.dense(rows, columns, offset=source.scoring.offset, device=query.device)[0]
    seen = seen[heads.start : heads.stop] if len(seen) > 1 else seen
    return found.masked_fill_(~seen, 0.0)


def _is_open(source: Recomputable) -> bool:
    """Whether every query sees every key."""
    if source.scoring.mask is None:
        return True
    window, rest = source.scoring.mask.split()
    return rest is None and window.left is None and window.right is None


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
