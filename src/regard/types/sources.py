"""Where the weights of a map come from: recomputed from queries and keys, stored, or discarded."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe import Pooled, Region, Scoring, window
from regard.masks import Part, everything
from regard.types.pooling import pool_weights

_DISCARDED = (
    "this map keeps only statistics and an atlas, not what its weights could be computed from; "
    "watch again with keep='windows' or keep='dense'"
)


@dataclass(frozen=True, eq=False)
class RecomputableWeights:
    """The inputs of the call, from which any weight is computed again when it is asked for.

    A weight is exp(score - lse), with the logsumexp of its row that was observed. `exact` is False
    if queries and keys were rounded to a smaller dtype, so that the weights differ a little.
    """

    form: ClassVar[str] = "recomputable"

    query: Float[Tensor, "head query dim"]
    key: Float[Tensor, "key_head key dim"]
    lse: Float[Tensor, "head query"]
    scoring: Scoring
    exact: bool = True

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of heads, queries and keys."""
        return self.query.shape[0], self.query.shape[1], self.key.shape[1]

    def window(self, region: Region) -> Pooled:
        """The weights of a rectangle, computed for it alone."""
        return window(self.query[None], self.key[None], self.lse[None], region, self.scoring)

    def weights_of_rows(self, rows: range) -> Float[Tensor, "head query key"]:
        """All weights of some rows, computed for these alone."""
        heads, _, columns = self.sizes
        windows = [self.window(Region(rows, range(columns), head)).mean for head in range(heads)]
        return torch.stack(windows)

    def within(self, part: Part) -> "RecomputableWeights":
        """The call of some heads, rows and columns; a weight stays its share of the whole row."""
        heads, rows, columns = part_index(part)
        keys, scoring = self.key, self.scoring
        if part.heads is not None:
            # a group of heads may be cut apart, so each head gets a copy of its group's keys
            group = self.query.shape[0] // keys.shape[0]
            keys = keys[[head // group for head in part.heads]]
        return RecomputableWeights(
            self.query[heads, rows],
            keys[:, columns],
            self.lse[heads, rows],
            replace(
                scoring,
                mask=(scoring.mask or everything()).within(part),
                bias=None if scoring.bias is None else scoring.bias.within(part),
                offset=scoring.offset + part.moved,
                sink=None if scoring.sink is None else scoring.sink[heads],
            ),
            self.exact,
        )


@dataclass(frozen=True, eq=False)
class DenseWeights:
    """The weights themselves: for mechanisms that cannot be recomputed, and for short inputs."""

    form: ClassVar[str] = "dense"

    weights: Float[Tensor, "head query key"]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of heads, queries and keys."""
        heads, queries, keys = self.weights.shape
        return heads, queries, keys

    def window(self, region: Region) -> Pooled:
        """The weights of a rectangle, pooled in cells of zoom x zoom."""
        region.check(1, *self.sizes)
        rows, columns = region.rows, region.columns
        weights = self.weights[region.head, rows.start : rows.stop, columns.start : columns.stop]
        return pool_weights(weights, region.zoom)

    def weights_of_rows(self, rows: range) -> Float[Tensor, "head query key"]:
        """All weights of some rows."""
        return self.weights[:, rows.start : rows.stop]

    def within(self, part: Part) -> "DenseWeights":
        """The weights of some heads, rows and columns."""
        return DenseWeights(self.weights[part_index(part)])


@dataclass(frozen=True)
class SummaryOnly:
    """The weights were discarded (keep="summary"); statistics and atlas may still be there."""

    form: ClassVar[str] = "summary"

    sizes: tuple[int, int, int]

    def window(self, region: Region) -> Pooled:
        """Refuse, and say how to watch so that weights are kept."""
        raise InputError(_DISCARDED)

    def weights_of_rows(self, rows: range) -> Float[Tensor, "head query key"]:
        """Refuse, and say how to watch so that weights are kept."""
        raise InputError(_DISCARDED)

    def within(self, part: Part) -> "SummaryOnly":
        """The sizes of some heads, rows and columns."""
        heads = self.sizes[0] if part.heads is None else len(part.heads)
        return SummaryOnly((heads, len(part.rows), len(part.columns)))


WeightSource = RecomputableWeights | DenseWeights | SummaryOnly


def part_index(part: Part) -> tuple[slice | list[int], slice, slice]:
    """The part as an index of (head, query, key); a view of the whole where it has all heads."""
    heads = slice(None) if part.heads is None else list(part.heads)
    rows, columns = (slice(run.start, run.stop) for run in (part.rows, part.columns))
    return heads, rows, columns
