"""A map with all that was kept of its call: values, gradients, edits, and only chosen heads."""

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
from regard.tracing.recording.options import Edited, Form, Kept
from regard.types import AttentionMap, DenseWeights, RecomputableWeights, SummaryOnly

Numbers = TypeVar("Numbers", Statistics, Top)


@dataclass(frozen=True, eq=False)
class Patch:
    """Rows of some heads of one map, and the weights that they used."""

    heads: list[int]
    rows: range
    weights: Float[Tensor, "head query key"]

    def laid_over(self, whole: Tensor, part: Tensor) -> Tensor:
        """The whole, with the axes (head query ...), with these numbers in the patch's place."""
        whole = whole.clone()
        whole[self.heads, self.rows.start : self.rows.stop] = part.to(whole)
        return whole


def completed(plain: AttentionMap, kept: Kept, place: Part, form: Form) -> AttentionMap:
    """The map of one example, whose place in the batch this is, with what was kept beside it."""
    rows, columns = (slice(each.start, each.stop) for each in (place.rows, place.columns))
    value, gradient = kept.value, kept.gradient
    found = replace(
        plain,
        values=None if value is None else value[place.example, :, columns],
        gradient=None if gradient is None else gradient[place.example, :, rows],
        output_projection=kept.output,
    )
    if kept.edited:
        found = _edited(found, [_patch(each, place) for each in kept.edited], form)
    return found if kept.heads is None else found.select(kept.heads)


def _patch(each: Edited, place: Part) -> Patch:
    """What an edit did to the rows and columns of one example; other keys had nothing."""
    queries, keys = each.weights.shape[2:]
    rows = _common(place.rows, range(each.row, each.row + queries))
    columns = _common(place.columns, range(each.column, each.column + keys))
    own = each.weights[
        place.example,
        :,
        rows.start - each.row : rows.stop - each.row,
        columns.start - each.column : columns.stop - each.column,
    ]
    around = (columns.start - place.columns.start, place.columns.stop - columns.stop)
    first = rows.start - place.rows.start
    return Patch(list(each.heads), range(first, first + len(rows)), F.pad(own, around))


def _common(one: range, other: range) -> range:
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))


def _edited(plain: AttentionMap, patches: Sequence[Patch], form: Form) -> AttentionMap:
    """The map of the weights that were used, dense, with their numbers."""
    assert isinstance(plain.source, RecomputableWeights)
    heads, rows, columns = plain.shape
    whole = (range(rows), range(columns))
    weights = torch.stack([plain.window(head, *whole).mean for head in range(heads)])
    statistics, top = plain.statistics, plain.top
    for each in patches:
        weights = each.laid_over(weights, each.weights)
        offset = plain.source.scoring.offset + each.rows.start
        if statistics is not None:
            statistics = _laid_over(each, statistics, statistics_of(each.weights, offset))
        if top is not None:
            top = _laid_over(each, top, top_of(each.weights, top.weights.shape[2]))
    source = SummaryOnly(plain.shape) if form == "summary" else DenseWeights(weights)
    atlas = _atlas(plain.atlas, weights, sorted({head for each in patches for head in each.heads}))
    return replace(plain, source=source, statistics=statistics, top=top, atlas=atlas)


def _laid_over(patch: Patch, numbers: Numbers, others: Numbers) -> Numbers:
    parts = [
        patch.laid_over(getattr(numbers, each.name), getattr(others, each.name))
        for each in fields(numbers)
    ]
    return type(numbers)(*parts)


def _atlas(atlas: Atlas | None, weights: Tensor, heads: list[int]) -> Atlas | None:
    if atlas is None:
        return None
    new = atlas_of(weights[heads], atlas.rows, atlas.columns)
    mean, largest = atlas.mean.clone(), atlas.largest.clone()
    mean[heads], largest[heads] = new.mean.to(mean), new.largest.to(largest)
    return replace(atlas, mean=mean, largest=largest)
