"""Adds to a map what its record keeps beside weights: values, gradient, output, edits, heads."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.observe import Atlas, Statistics, Top
from regard.kernels.observe.full_weights import atlas_of, statistics_of, top_of
from regard.masks import Part
from regard.tracing.recording.options import WeightsForm
from regard.tracing.recording.record import CallRecord, EditedWeights
from regard.types import AttentionMap, DenseWeights, RecomputableWeights, SummaryOnly

RowNumbers = TypeVar("RowNumbers", Statistics, Top)


@dataclass(frozen=True, eq=False)
class MapPatch:
    """Weights that some heads used in some rows of one map."""

    heads: list[int]
    rows: range
    weights: Float[Tensor, "head query key"]

    def put_into(self, whole: Tensor, part: Tensor) -> Tensor:
        """A copy of the whole (head query ...), with these numbers in the patch's place."""
        whole = whole.clone()
        whole[self.heads, self.rows.start : self.rows.stop] = part.to(whole)
        return whole


def add_extras(
    attention_map: AttentionMap, record: CallRecord, place: Part, form: WeightsForm
) -> AttentionMap:
    """The map of one example with what its record keeps; `place` is its part of the record."""
    rows, columns = (slice(side.start, side.stop) for side in (place.rows, place.columns))
    value, gradient = record.value, record.gradient
    completed = replace(
        attention_map,
        values=None if value is None else value[place.example, :, columns],
        gradient=None if gradient is None else gradient[place.example, :, rows],
        output_projection=record.output,
        head_indices=record.head_indices,
    )
    if record.edits:
        patches = [_cut_patch(edit, place) for edit in record.edits]
        completed = _put_patches(completed, patches, form)
    return completed if record.heads is None else completed.select(record.heads)


def _cut_patch(edit: EditedWeights, place: Part) -> MapPatch:
    """What an edit did to the rows and columns of one example; keys outside it have no weight."""
    queries, keys = edit.weights.shape[2:]
    rows = _intersect(place.rows, range(edit.row, edit.row + queries))
    columns = _intersect(place.columns, range(edit.column, edit.column + keys))
    weights = edit.weights[
        place.example,
        :,
        rows.start - edit.row : rows.stop - edit.row,
        columns.start - edit.column : columns.stop - edit.column,
    ]
    around = (columns.start - place.columns.start, place.columns.stop - columns.stop)
    first = rows.start - place.rows.start
    return MapPatch(list(edit.heads), range(first, first + len(rows)), F.pad(weights, around))


def _intersect(one: range, other: range) -> range:
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))


def _put_patches(
    attention_map: AttentionMap, patches: Sequence[MapPatch], form: WeightsForm
) -> AttentionMap:
    """The map of the weights that were used, with their statistics.

    It is dense, because edited weights cannot be computed again from queries and keys.
    """
    assert isinstance(attention_map.source, RecomputableWeights)
    heads, rows, columns = attention_map.shape
    whole = (range(rows), range(columns))
    weights = torch.stack([attention_map.window(head, *whole).mean for head in range(heads)])
    statistics, top = attention_map.statistics, attention_map.top
    for patch in patches:
        weights = patch.put_into(weights, patch.weights)
        offset = attention_map.source.scoring.offset + patch.rows.start
        if statistics is not None:
            statistics = _put_numbers(patch, statistics, statistics_of(patch.weights, offset))
        if top is not None:
            top = _put_numbers(patch, top, top_of(patch.weights, top.weights.shape[2]))
    source = SummaryOnly(attention_map.shape) if form == "summary" else DenseWeights(weights)
    edited_heads = sorted({head for patch in patches for head in patch.heads})
    atlas = _replace_atlas(attention_map.atlas, weights, edited_heads)
    return replace(attention_map, source=source, statistics=statistics, top=top, atlas=atlas)


def _put_numbers(patch: MapPatch, numbers: RowNumbers, others: RowNumbers) -> RowNumbers:
    """The statistics or largest weights of a map, with those of a patch put in."""
    columns = [
        patch.put_into(getattr(numbers, field.name), getattr(others, field.name))
        for field in fields(numbers)
    ]
    return type(numbers)(*columns)


def _replace_atlas(atlas: Atlas | None, weights: Tensor, heads: list[int]) -> Atlas | None:
    """The atlas with that of edited heads made anew."""
    if atlas is None:
        return None
    new = atlas_of(weights[heads], atlas.rows, atlas.columns)
    mean, largest = atlas.mean.clone(), atlas.largest.clone()
    mean[heads], largest[heads] = new.mean.to(mean), new.largest.to(largest)
    return replace(atlas, mean=mean, largest=largest)
