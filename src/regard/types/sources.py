"""Where the weights of a map come from: computed again from its call, held whole, or gone."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe import Pooled, Region, Scoring, window
from regard.masks import Part, everything

_GONE = (
    "this map keeps only statistics and an atlas, not what its weights could be computed from; "
    "watch again with keep='windows' or keep='dense'"
)


@dataclass(frozen=True, eq=False)
class Recomputable:
    """What the call was: any weight can be computed again, `exact` if nothing was rounded."""

    query: Float[Tensor, "head query dim"]
    key: Float[Tensor, "key_head key dim"]
    lse: Float[Tensor, "head query"]
    scoring: Scoring
    exact: bool = True

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Heads, queries, keys."""
        return self.query.shape[0], self.query.shape[1], self.key.shape[1]

    def look(self, region: Region) -> Pooled:
        """The weights, computed for this rectangle alone."""
        return window(self.query[None], self.key[None], self.lse[None], region, self.scoring)

    def rows(self, run: range) -> Float[Tensor, "head query key"]:
        """All weights of some rows, computed for these alone."""
        heads, _, columns = self.sizes
        looks = [self.look(Region(run, range(columns), head)).mean for head in range(heads)]
        return torch.stack(looks)

    def within(self, part: Part) -> "Recomputable":
        """The part's own call; its weights are shares of the whole rows still."""
        heads, rows, columns = indices(part)
        keys, scoring = self.key, self.scoring
        if part.heads is not None:
            # groups may be cut apart: each head gets keys of its own
            group = self.query.shape[0] // keys.shape[0]
            keys = keys[[head // group for head in part.heads]]
        return Recomputable(
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
class Dense:
    """The weights themselves: for mechanisms that have no shorter form, and for short inputs."""

    weights: Float[Tensor, "head query key"]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Heads, queries, keys."""
        heads, queries, keys = self.weights.shape
        return heads, queries, keys

    def look(self, region: Region) -> Pooled:
        """The weights of the rectangle, pooled where a zoom is asked."""
        region.check(1, *self.sizes)
        rows, columns = region.rows, region.columns
        weights = self.weights[region.head, rows.start : rows.stop, columns.start : columns.stop]
        return pooled(weights, region.zoom)

    def rows(self, run: range) -> Float[Tensor, "head query key"]:
        """All weights of some rows."""
        return self.weights[:, run.start : run.stop]

    def within(self, part: Part) -> "Dense":
        """The weights of the part."""
        return Dense(self.weights[indices(part)])


@dataclass(frozen=True)
class Summary:
    """Only the statistics and the atlas were kept; the weights are gone."""

    sizes: tuple[int, int, int]

    def look(self, region: Region) -> Pooled:
        """Refused, with the way out."""
        raise InputError(_GONE)

    def rows(self, run: range) -> Float[Tensor, "head query key"]:
        """Refused, with the way out."""
        raise InputError(_GONE)

    def within(self, part: Part) -> "Summary":
        """Fewer heads, rows and columns of which the weights are gone."""
        heads = self.sizes[0] if part.heads is None else len(part.heads)
        return Summary((heads, len(part.rows), len(part.columns)))


Source = Recomputable | Dense | Summary


def indices(part: Part) -> tuple[slice | list[int], slice, slice]:
    """The part as an index of (head, query, key); a view of the whole where it has all heads."""
    heads = slice(None) if part.heads is None else list(part.heads)
    rows, columns = (slice(run.start, run.stop) for run in (part.rows, part.columns))
    return heads, rows, columns


def pooled(weights: Float[Tensor, "query key"], zoom: int) -> Pooled:
    """The mean and the largest of each cell of zoom x zoom weights; edge cells may be partial."""
    if zoom == 1:
        return Pooled(weights, weights)
    rows, columns = weights.shape
    cells = (-(-rows // zoom), zoom, -(-columns // zoom), zoom)
    padded = weights.new_full((cells[0] * zoom, cells[2] * zoom), torch.nan)
    padded[:rows, :columns] = weights
    grid = padded.view(cells).transpose(1, 2).flatten(2)
    return Pooled(grid.nanmean(dim=-1), grid.nan_to_num(nan=-torch.inf).amax(dim=-1))
