"""Looks for recorded weights in the maps of traces.

A recorded tensor is cut into slices (query key). A slice is in the traces if a map has the same
slice, or (for maps that stack decoding steps, leave out padding or join blocks) if each of its rows
is a row of a map: the same weights in the same order, keys without weight apart.

That does not tell whether the weights are where they belong. `find_displaced` does, for calls whose
first axis is the batch: the map of the site in trace i has to equal example i, head by head, query
by query and key by key.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from bench.architectures.recorder import RecordedCall
from regard.types import AttentionMap, Trace

__all__ = [
    "TOLERANCE",
    "MapIndex",
    "cut_hidden_keys",
    "cut_numbers",
    "find_displaced",
    "has_more_rows",
    "is_cut_at_borders",
    "is_sampled",
    "leaves_out_hidden_keys",
    "leaves_out_padding",
    "maps_of_call",
]

TOLERANCE = 2e-5
_ZERO = 1e-30  # a weight that is hidden by a mask, exactly or by underflow
_LARGEST_SLICE = 1 << 25  # numbers; a row comparison of more would take minutes
_WIDEST_KERNEL = 64  # keys of a dynamic convolution


class MapIndex:
    """All slices and rows of the maps of some traces, ready to be searched."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        slices = defaultdict(list)
        self._means = defaultdict(list)  # over the heads of each map
        for trace in traces:
            for attention_map in trace.maps:
                weights = attention_map.weights().detach().float()
                slices[tuple(weights.shape[-2:])].append(weights.flatten(0, -3))
                self._means[tuple(weights.shape[-2:])].append(weights.flatten(0, -3).mean(0))
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
        near = (slices[:, 0] - part[0]).abs().amax(1) <= TOLERANCE  # the first rows tell most apart
        return bool(((slices[near] - part).abs().amax((1, 2)) <= TOLERANCE).any())

    def has_means(self, weights: Tensor) -> bool:
        """True if weights (example head query key) are means over heads, the same for each head."""
        if weights.shape[1] < 2 or not bool((weights == weights[:, :1]).all()):
            return False
        means = self._means.get(tuple(weights.shape[-2:]), [])
        return all(
            any(bool(((mean - example[0]).abs() <= TOLERANCE).all()) for mean in means)
            for example in weights.float()
        )

    def has_rows(self, part: Tensor, rows: Sequence[int] | None = None) -> bool:
        """True if every row of a slice, or each of those that are named, is a row of a map."""
        index = self._index_rows()
        rows = range(len(part)) if rows is None else rows
        return all(_is_row_of(index, part[row]) for row in rows)

    def has_corner(self, part: Tensor) -> bool:
        """True if a slice is the beginning or the end of a larger slice of a map.

        Some models return the weights of the text alone, without those of a prompt before it.
        """
        rows, columns = part.shape
        for slices in self._slices.values():
            if slices.shape[1] >= rows and slices.shape[2] >= columns:
                for corner in (slices[:, :rows, :columns], slices[:, -rows:, -columns:]):
                    if bool(((corner - part).abs().amax((1, 2)) <= TOLERANCE).any()):
                        return True
        return False

    def _index_rows(self) -> dict[int, Tensor]:
        """The distinct rows of all maps without their zeros, by their length."""
        if self._rows is None:
            rows = defaultdict(list)
            for slices in self._slices.values():
                for row in slices.flatten(0, 1):
                    kept = row[row > _ZERO]
                    rows[len(kept)].append(kept)
            self._rows = _sort_rows(rows)
        return self._rows


def _sort_rows(rows: Mapping[int, list[Tensor]]) -> dict[int, Tensor]:
    """Rows of each length as one tensor, sorted by their first number."""
    stacked = {length: torch.stack(parts) for length, parts in rows.items()}
    return {
        length: parts[parts[:, 0].argsort()] if length else parts
        for length, parts in stacked.items()
    }


def _is_row_of(index: dict[int, Tensor], row: Tensor) -> bool:
    """True if a row without its zeros is among the rows of the index."""
    kept = row[row > _ZERO]
    if not len(kept):
        return True  # a query that sees nothing
    rows = index.get(len(kept))
    if rows is None:
        return False
    # rows are sorted by their first number, so that only a few need to be compared
    near = torch.stack([kept[0] - TOLERANCE, kept[0] + TOLERANCE])
    start, stop = torch.searchsorted(rows[:, 0].contiguous(), near).tolist()
    candidates = rows[start : stop + 1]
    return (
        bool(((candidates - kept).abs().amax(1) <= TOLERANCE).any()) if len(candidates) else False
    )


def _read_axes(call: RecordedCall) -> Iterator[Tensor]:
    """The call as slices (slice query key), for each axis that may be the queries'."""
    weights = call.weights.float().movedim(call.axis, -1)
    if weights.dim() == 1:
        weights = weights[None]
    for axis in range(weights.dim() - 2, -1, -1):
        moved = weights.movedim(axis, -2)
        if moved.numel() <= _LARGEST_SLICE:
            yield moved.reshape(-1, *moved.shape[-2:])
    operand = call.operand
    if operand is not None and operand.dim() >= 2:
        slices = operand.float().reshape(-1, *operand.shape[-2:])
        yield slices
        yield slices.mT


def cut_numbers(site: str) -> str:
    """The module of a site: without the numbers of repeated runs (`#1`) and of parts (`@0`)."""
    return re.split("[#@]", site)[0]


def maps_of_call(trace: Trace, call: RecordedCall) -> list[AttentionMap]:
    """The maps of a trace whose site is that of a call."""
    sites = {call.site, call.product_site}
    return [m for m in trace.maps if cut_numbers(m.site) in sites]


def has_more_rows(call: RecordedCall, traces: Sequence[Trace]) -> bool:
    """True if a call has all rows of the maps of its site, and rows of padding that they leave out.

    Attention in blocks pads a text to whole blocks; the map has the rows of real tokens alone.
    """
    maps = [m for trace in traces for m in maps_of_call(trace, call)]
    rows, columns = call.weights.shape[-2:] if call.weights.dim() > 1 else (0, 0)
    if (
        not maps
        or call.axis != -1
        or any(m.shape[1] >= rows or m.shape[2] >= columns for m in maps)
    ):
        return False
    recorded = call.weights.float().reshape(-1, columns)
    index: dict[int, list[Tensor]] = defaultdict(list)
    for row in recorded:
        index[int((row > _ZERO).sum())].append(row[row > _ZERO])
    stacked = _sort_rows(index)
    shown = [row for m in maps for row in m.weights().detach().float().flatten(0, 1)]
    return all(_is_row_of(stacked, row) or _is_within_row(recorded, row) for row in shown)


def _is_within_row(recorded: Tensor, row: Tensor) -> bool:
    """True if the numbers of a row stand in one recorded row, in this order, among others.

    As where tokens are padded with zeros to whole windows, and the zeros get weight too.
    """
    row = row[row > _ZERO]
    near = (recorded[:, :, None] - row).abs() <= TOLERANCE  # recorded row, its key, number
    place = torch.zeros(len(recorded), dtype=torch.long)  # keys of each recorded row used so far
    keys, fits = torch.arange(recorded.shape[1]), torch.ones(len(recorded), dtype=torch.bool)
    for number in range(len(row)):
        later = near[:, :, number] & (keys >= place[:, None])
        fits &= later.any(1)
        place = later.int().argmax(1) + 1
    return bool(fits.any())


def leaves_out_padding(call: RecordedCall, traces: Sequence[Trace]) -> bool:
    """True if the maps of a call's site have each of its rows, but for keys that are padding.

    Blocks at the border of a picture reach beyond it, and weigh places that are no tokens. A map
    has the other keys of each row, in the same order, and as many rows as the call.
    """
    maps = [m for trace in traces for m in maps_of_call(trace, call)]
    if not maps or call.axis != -1:
        return False
    shown = [row[row > _ZERO] for m in maps for row in m.weights().detach().float().flatten(0, 1)]
    recorded = call.weights.float().reshape(-1, call.weights.shape[-1])
    if len(shown) != len(recorded):
        return False
    by_first = defaultdict(list)
    for row in shown:
        if len(row):
            by_first[float(row[0])].append(row.tolist())
    return all(
        any(_is_part(part, row) for weight in row for part in by_first.get(weight, ()))
        for row in recorded.tolist()
    )


def _is_part(part: list[float], row: list[float]) -> bool:
    """True if a row has all weights of a part, in the same order."""
    rest = iter(row)
    return all(weight in rest for weight in part)


def is_sampled(call: RecordedCall, traces: Sequence[Trace]) -> bool:
    """True if a call weighs sampling points (deformable attention) and its site has such a map.

    Bilinear interpolation spreads each weight over four keys, and drops what lies outside of the
    picture, so that rows cannot be compared. What is checked: the map has the heads and queries of
    the call, no weight is negative, and no row sums to more than one.
    """
    if call.operation not in ("mul", "mul_") or not traces:
        return False
    rows = call.weights.numel() // (call.weights.shape[call.axis] * len(traces))
    for trace in traces:
        maps = [m for m in maps_of_call(trace, call) if m.shape[0] * m.shape[1] == rows]
        sums = [(m.weights().sum(-1).max(), m.weights().min()) for m in maps]
        if not any(most <= 1 + TOLERANCE and least >= 0 for most, least in sums):
            return False
    return True


def is_cut_at_borders(call: RecordedCall, traces: Sequence[Trace]) -> bool:
    """True if the map of a call leaves out just the weights on zeros around the tokens.

    A dynamic convolution pads the tokens with zeros, and weighs these too. What is checked: the
    site has as many rows as were recorded, and each is a stretch of a recorded row.
    """
    keys = call.weights.shape[call.axis]
    recorded = call.weights.float().movedim(call.axis, -1).reshape(-1, keys)
    if keys > _WIDEST_KERNEL:
        return False
    shown = defaultdict(list)  # by site: a module may attend in other ways beside
    for attention_map in (m for trace in traces for m in maps_of_call(trace, call)):
        rows = attention_map.weights().float().flatten(0, 1)
        shown[attention_map.site] += [row[row > _ZERO] for row in rows]
    return any(
        len(rows) == len(recorded) and all(_is_stretch_of(recorded, row) for row in rows)
        for rows in shown.values()
    )


def _is_stretch_of(recorded: Tensor, row: Tensor) -> bool:
    """True if a row is some neighbouring numbers of one of the recorded rows."""
    if not 0 < len(row) <= recorded.shape[1]:
        return False
    stretches = recorded.unfold(1, len(row), 1)
    return bool(((stretches - row).abs() <= TOLERANCE).all(-1).any())


def find_displaced(call: RecordedCall, traces: Sequence[Trace], batch: int) -> str | None:
    """Which example of a call has its weights elsewhere than in the map of its trace and site.

    None if all are in place, or if it cannot be told: the first axis of the call is not the batch,
    the maps have more queries or keys (decoding steps, blocks that were joined), or no map has the
    name of the site.
    """
    if call.weights.dim() != 4 or call.axis != -1 or {len(call.weights), len(traces)} != {batch}:
        return None
    for example, trace in enumerate(traces[:batch]):
        maps = [m for m in maps_of_call(trace, call) if m.shape[0] == call.weights.shape[1]]
        wanted = _cut_sink(call)[example]
        equal = [m for m in maps if m.shape == tuple(wanted.shape)]
        used = _as_used(call)[example]  # talking heads mix weights after the softmax
        if equal and not any(_equals(m.weights(), wanted, used) for m in equal):
            return f"the map of example {example} differs"
        if any(_equals_without_padding(m, wanted) for m in maps if not equal):
            continue
        if maps and not equal and all(_is_smaller(m.shape, tuple(wanted.shape)) for m in maps):
            rows, columns = maps[0].shape[1:]
            return f"{rows} x {columns} for {wanted.shape[1]} x {wanted.shape[2]} of {example}"
    return None


def _cut_sink(call: RecordedCall) -> Tensor:
    """The weights without the key of a sink, which is cut off before the product with values."""
    weights, operand = call.weights, call.operand
    cut = operand is not None and operand.shape[-1] == weights.shape[-1] - 1
    return weights[..., :-1] if cut else weights


def _as_used(call: RecordedCall) -> Tensor:
    """The weights as they stand in the product with the values."""
    operand, weights = call.operand, _cut_sink(call)
    fits = operand is not None and operand.numel() == weights.numel()
    return operand.reshape(weights.shape) if fits and operand is not None else weights


def _equals(weights: Tensor, *forms: Tensor) -> bool:
    """True if all numbers agree with one of the forms."""
    weights = weights.detach().double()
    return any(bool(((weights - form.double()).abs() <= TOLERANCE).all()) for form in forms)


def leaves_out_hidden_keys(call: RecordedCall, traces: Sequence[Trace]) -> bool:
    """True if the map of each example has all of a call but hidden keys and their rows."""
    if call.weights.dim() != 4 or call.axis != -1 or len(call.weights) != len(traces):
        return False
    return all(
        any(_equals_without_padding(m, weights) for m in maps_of_call(trace, call))
        for trace, weights in zip(traces, _cut_sink(call), strict=True)
    )


def _equals_without_padding(attention_map: AttentionMap, weights: Tensor) -> bool:
    """True if a map has all weights but those of keys that no query sees, and of their rows.

    A model that puts pictures and texts together pads what it made of them itself.
    """
    cut = cut_hidden_keys(weights)
    fits = tuple(attention_map.shape) == tuple(cut.shape)
    return fits and _equals(attention_map.weights(), cut)


def cut_hidden_keys(weights: Tensor) -> Tensor:
    """Weights (... query key) without keys that no query sees, and without rows of such tokens."""
    seen = weights.flatten(0, -2).amax(0) > _ZERO
    cut = weights[..., seen]
    return cut[..., seen, :] if weights.shape[-2] == weights.shape[-1] else cut


def _is_smaller(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """True if a map has fewer queries or keys, and none more."""
    return shape[1] <= other[1] and shape[2] <= other[2]
