"""The attention map of one site in one example: its weights, their statistics and its tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, TypeVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError, ShapeError, UnknownNameError
from regard.kernels.observe import Atlas, Pooled, Region, Statistics, Top
from regard.masks import Part, causal
from regard.types.map_statistics import (
    MAX_STRIP_WEIGHTS,
    ReceivedAttention,
    compute_statistics,
    count_visible,
    row_strips,
    sum_received,
)
from regard.types.pooling import pool_from_atlas
from regard.types.sources import RecomputableWeights, WeightSource, part_index

MapKind = Literal["encoder", "decoder", "cross"]
RowValues = TypeVar("RowValues", Statistics, Top)

MAX_DENSE_WEIGHTS = 1 << 26  # `weights()` refuses to return more numbers than this


@dataclass(frozen=True)
class Axis:
    """Which tokens of which stream the rows or the columns of a map stand for.

    `positions` are indices into the tokens of the stream, one for each row or column.
    """

    stream: str
    positions: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, run: range) -> "Axis":
        return Axis(self.stream, self.positions[run.start : run.stop])

    def __repr__(self) -> str:
        return f"<Axis of {len(self)} tokens of {self.stream!r}>"


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention weights of every head of one site, with statistics of each row.

    Rows are queries and columns are keys. `source` has the weights: stored, recomputable from
    queries and keys, or discarded. A row is labelled by the token that was read there; in a cross
    map `produced` names the token that the decoder wrote after it.

    `statistics` and `top` were kept while the model ran, with the axes (head query). They are of
    the whole rows, also in a part of the map that shows only some columns: a largest weight whose
    key is outside the part stays, with -1 for its key.

    `head_indices` are the heads' indices in the model, None where the map has all of them.
    `values` are the vectors that the weights mixed; a group of heads may share them. `gradient` is
    the gradient of some loss with respect to each head's context, so that its gradient with respect
    to the weights is gradient @ values^T. `output_projection` is each head's part of W_O, the
    matrix that the contexts are multiplied by.
    """

    site: str
    kind: MapKind
    rows: Axis
    columns: Axis
    source: WeightSource
    statistics: Statistics | None = None
    top: Top | None = None
    atlas: Atlas | None = None
    produced: Axis | None = None
    head_indices: tuple[int, ...] | None = None
    values: Float[Tensor, "key_head key value_dim"] | None = None
    gradient: Float[Tensor, "head query value_dim"] | None = None
    output_projection: Float[Tensor, "head value_dim model"] | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(MapKind):
            raise UnknownNameError("kind of map", self.kind, get_args(MapKind))
        expected = (len(self.rows), len(self.columns))
        if self.source.sizes[1:] != expected:
            raise InputError(
                f"the map of {self.site!r} expected weights of {expected[0]} rows and "
                f"{expected[1]} columns, one for each token, got {self.source.sizes[1:]}"
            )
        if self.produced is not None and len(self.produced) != len(self.rows):
            raise InputError(
                f"the map of {self.site!r} expected one produced token for each of its "
                f"{len(self.rows)} rows, got {len(self.produced)}"
            )
        self._check_row_values("statistics", self.statistics)
        self._check_row_values("top", self.top)
        self._check_tensors()

    def _check_tensors(self) -> None:
        """Refuse values, gradients and projections of another shape than the weights."""
        heads, rows, columns = self.shape
        if self.head_indices is not None and len(self.head_indices) != heads:
            raise InputError(
                f"the map of {self.site!r} expected a number for each of its {heads} heads, got "
                f"{self.head_indices}"
            )
        if self.gradient is not None and self.gradient.shape[:2] != (heads, rows):
            raise ShapeError(
                f"the map of {self.site!r} expected a gradient with the axes (head query) = "
                f"{(heads, rows)} first, got {tuple(self.gradient.shape)}; leave the batch out"
            )
        if self.values is not None and (
            self.values.shape[1] != columns or heads % max(1, len(self.values))
        ):
            raise ShapeError(
                f"the map of {self.site!r} expected values for its {columns} columns, of a number "
                f"of heads that divides {heads}, got {tuple(self.values.shape)}"
            )
        output = self.output_projection
        if output is not None and (output.dim() != 3 or len(output) != heads):
            raise ShapeError(
                f"the map of {self.site!r} expected an output with the axes (head value_dim model) "
                f"for its {heads} heads, got {tuple(output.shape)}"
            )

    def _check_row_values(self, name: str, values: Statistics | Top | None) -> None:
        """Refuse statistics or top keys whose first axes are not the map's heads and rows."""
        for field in fields(values) if values else ():
            sizes = tuple(getattr(values, field.name).shape)
            if sizes[:2] != self.shape[:2]:
                raise ShapeError(
                    f"the map of {self.site!r} expected {name} with the axes (head query) = "
                    f"{self.shape[:2]}, got {field.name} with {sizes}; leave the batch out"
                )

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of heads, rows and columns."""
        return self.source.sizes

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.source.sizes[0]

    def weights(self, head: int | None = None) -> Float[Tensor, "*head query key"]:
        """The exact weights of a head, or of all heads; refused where they are too many."""
        heads = range(self.heads) if head is None else [head]
        count = len(heads) * len(self.rows) * len(self.columns)
        if count > MAX_DENSE_WEIGHTS:
            raise InputError(
                f"the weights of {self.site!r} are {count:,} numbers, more than "
                f"{MAX_DENSE_WEIGHTS:,}; ask "
                "for one head, for a part with .part(...), or for a window with a zoom"
            )
        rows, columns = range(len(self.rows)), range(len(self.columns))
        weights = [self.window(index, rows, columns).mean for index in heads]
        return torch.stack(weights) if head is None else weights[0]

    def window(self, head: int, rows: range, columns: range, zoom: int = 1) -> Pooled:
        """The exact weights of a rectangle of a head, pooled in cells of zoom x zoom.

        They are read off the atlas where its cells fit the rectangle and the zoom, and computed
        from the source otherwise.
        """
        if not 0 <= head < self.heads:
            raise InputError(f"no head {head} at {self.site!r}; it has heads 0 to {self.heads - 1}")
        region = Region(rows, columns, head, 0, zoom)
        region.check(1, *self.shape)
        pooled = None
        if self.atlas is not None:
            pooled = pool_from_atlas(self.atlas, region, self.shape[1:])
        return self.source.window(region) if pooled is None else pooled

    @property
    def offset(self) -> int:
        """How far the first row is from the first column: row i stands at column offset + i."""
        if isinstance(self.source, RecomputableWeights):
            return self.source.scoring.offset
        return self.rows.positions[0] - self.columns.positions[0] if 0 not in self.shape else 0

    @cached_property
    def row_statistics(self) -> Statistics:
        """Entropy, largest weight and so on of each row: as kept, else computed from the weights.

        Kept statistics cover the whole rows; computed ones cover the columns that the map has.

        >>> import torch
        >>> from regard.types import Trace
        >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
        >>> trace["weights"].row_statistics.on_self
        tensor([[1., 1., 1.]])
        """
        if self.statistics is not None:
            return self.statistics
        return compute_statistics(self.source, self.offset)

    def received(self, labels: Int[Tensor, " key"] | None = None) -> ReceivedAttention:
        """How much attention each column received from all rows, and each row's mass per label.

        `labels` has a number from 0 on for each column, such as its kind of token; columns with a
        negative label count for no label.

        >>> import torch
        >>> from regard.types import Trace
        >>> weights = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
        >>> trace = Trace.from_weights(weights, ["我", "爱"])
        >>> trace["weights"].received().total
        tensor([[1.2500, 0.7500]])
        """
        return sum_received(self.source, labels)

    @cached_property
    def visible_counts(self) -> Int[Tensor, "head query"]:
        """How many columns each row may see, by the mask.

        Where no mask was kept, a text in which no row gives any weight to a later token is taken
        to have a causal mask; otherwise every row may see every column.
        """
        if isinstance(self.source, RecomputableWeights):
            mask, device = self.source.scoring.mask, self.source.query.device
            return count_visible(mask, self.shape, self.offset, device)
        sees_future = self.kind == "cross" or bool(self.row_statistics.on_future.any())
        return count_visible(None if sees_future else causal(), self.shape, self.offset)

    def row_strips(
        self, max_weights: int = MAX_STRIP_WEIGHTS
    ) -> Iterator[tuple[range, Float[Tensor, "head query key"]]]:
        """The exact weights of all heads, some rows at a time: at most `max_weights` at once."""
        return row_strips(self.source, max_weights)

    def select(self, heads: Sequence[int]) -> "AttentionMap":
        """The same map with only these heads, in this order."""
        wrong = [head for head in heads if not 0 <= head < self.heads]
        if wrong or not heads:
            raise InputError(
                f"expected some of the heads 0 to {self.heads - 1} of {self.site!r}, got "
                f"{list(heads)}"
            )
        whole = Part(0, range(len(self.rows)), range(len(self.columns)), tuple(heads))
        return self._within(whole)

    def part(self, rows: range, columns: range) -> "AttentionMap":
        """The same map with only these rows and columns."""
        for name, run, axis in (("rows", rows, self.rows), ("columns", columns, self.columns)):
            if run.step != 1 or not 0 <= run.start < run.stop <= len(axis):
                raise InputError(
                    f"expected {name} within 0 to {len(axis)} of {self.site!r} with a step of "
                    f"one, got {run}"
                )
        return self._within(Part(0, rows, columns))

    def _within(self, part: Part) -> "AttentionMap":
        """The map with only the part's heads, rows and columns, in all of its fields."""
        heads, rows, _ = part_index(part)
        has_all_tokens = (len(part.rows), len(part.columns)) == self.shape[1:]
        gradient, output = self.gradient, self.output_projection
        return replace(
            self,
            rows=self.rows[part.rows],
            columns=self.columns[part.columns],
            source=self.source.within(part),
            statistics=_select_rows(self.statistics, part),
            top=_select_rows(self.top, part),
            # the cells of an atlas do not fit a part that begins inside one of them
            atlas=_select_heads(self.atlas, part) if has_all_tokens else None,
            produced=None if self.produced is None else self.produced[part.rows],
            head_indices=_select_head_indices(self, part),
            values=_select_values(self, part),
            gradient=None if gradient is None else gradient[heads, rows],
            output_projection=None if output is None else output[heads],
        )

    def __repr__(self) -> str:
        heads, rows, columns = self.shape
        return (
            f"<{self.kind} map {self.site!r}: {heads} head{'s' * (heads != 1)}"
            f"{_list_heads(self.head_indices)}, "
            f"{rows} {self.rows.stream} rows x {columns} {self.columns.stream} columns, "
            f"{self.source.form}>"
        )


def shift_keys(keys: Tensor, columns: range) -> Tensor:
    """Indices of keys counted from the first of these columns, -1 for keys outside them."""
    outside = (keys < columns.start) | (keys >= columns.stop)
    return (keys - columns.start).masked_fill(outside, -1)


def _select_rows(values: RowValues | None, part: Part) -> RowValues | None:
    """The statistics or top keys of the part's heads and rows."""
    if values is None:
        return None
    heads, rows, _ = part_index(part)
    selected: dict[str, Tensor] = {
        field.name: getattr(values, field.name)[heads, rows] for field in fields(values)
    }
    for name in {"largest_key", "keys"} & {*selected}:
        selected[name] = shift_keys(selected[name], part.columns)
    return replace(values, **selected)


def _select_heads(atlas: Atlas | None, part: Part) -> Atlas | None:
    """The atlas of the part's heads."""
    if atlas is None:
        return None
    heads, _, _ = part_index(part)
    return replace(atlas, mean=atlas.mean[heads], largest=atlas.largest[heads])


def _select_head_indices(whole: AttentionMap, part: Part) -> tuple[int, ...] | None:
    """The indices in the model of the part's heads."""
    if part.heads is None:
        return whole.head_indices
    if whole.head_indices is None:
        return tuple(part.heads)
    return tuple(whole.head_indices[head] for head in part.heads)


def _select_values(whole: AttentionMap, part: Part) -> Tensor | None:
    """The part's values; where heads are chosen, each gets a copy of its group's values."""
    if whole.values is None:
        return None
    values = whole.values[:, part.columns.start : part.columns.stop]
    if part.heads is None:
        return values
    group = whole.heads // len(values)
    return values[[head // group for head in part.heads]]


def _list_heads(indices: tuple[int, ...] | None) -> str:
    """The first few head indices in brackets, for `repr`."""
    if indices is None:
        return ""
    shown = ", ".join(map(str, indices[:_SHOWN_HEADS]))
    return f" ({shown}{', …' if len(indices) > _SHOWN_HEADS else ''})"


_SHOWN_HEADS = 8  # head indices that a repr shows
