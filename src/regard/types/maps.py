"""One site's attention in one example: who looked at whom, and where the weights come from."""

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
from regard.types import counting
from regard.types.counting import Received
from regard.types.levels import read_off
from regard.types.sources import Recomputable, Source, indices

Kind = Literal["encoder", "decoder", "cross"]
Numbers = TypeVar("Numbers", Statistics, Top)

MOST = 1 << 26  # numbers that are made dense at once


@dataclass(frozen=True)
class Axis:
    """Which tokens of which stream the rows or columns of a map are."""

    stream: str
    places: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, run: range) -> "Axis":
        return Axis(self.stream, self.places[run.start : run.stop])


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of every head of one site, with what was seen of each row.

    A row is labelled by the token that it read; `produced` names the tokens that rows of a cross
    map led to, while decoding. The numbers of statistics and top have the axes (head query). They
    are those of the whole rows, also where only some columns are shown: a largest weight whose key
    is out of view stays, with -1 for its key.

    `head_numbers` are those that its heads have in the model, None where these are all of them.
    `values` are what the weights mixed; groups of heads may share them. `gradient` is that of
    some loss by each head's context, so that by a head's weights it is gradient @ values^T.
    `output` is each head's part of the matrix that contexts go straight into, W_O.
    """

    site: str
    kind: Kind
    rows: Axis
    columns: Axis
    source: Source
    statistics: Statistics | None = None
    top: Top | None = None
    atlas: Atlas | None = None
    produced: Axis | None = None
    head_numbers: tuple[int, ...] | None = None
    values: Float[Tensor, "key_head key value_dim"] | None = None
    gradient: Float[Tensor, "head query value_dim"] | None = None
    output: Float[Tensor, "head value_dim model"] | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UnknownNameError("kind of map", self.kind, get_args(Kind))
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
        for name in ("statistics", "top"):
            self._check_numbers(name, getattr(self, name))
        self._check_sides()

    def _check_sides(self) -> None:
        heads, rows, columns = self.shape
        if self.head_numbers is not None and len(self.head_numbers) != heads:
            raise InputError(
                f"the map of {self.site!r} expected a number for each of its {heads} heads, got "
                f"{self.head_numbers}"
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

        if self.output is not None and (self.output.dim() != 3 or len(self.output) != heads):
            raise ShapeError(
                f"the map of {self.site!r} expected an output with the axes (head value_dim model) "
                f"for its {heads} heads, got {tuple(self.output.shape)}"
            )

    def _check_numbers(self, name: str, numbers: Statistics | Top | None) -> None:
        for each in fields(numbers) if numbers else ():
            sizes = tuple(getattr(numbers, each.name).shape)
            if sizes[:2] != self.shape[:2]:
                raise ShapeError(
                    f"the map of {self.site!r} expected {name} with the axes (head query) = "
                    f"{self.shape[:2]}, got {each.name} with {sizes}; leave the batch out"
                )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, rows, columns."""
        return self.source.sizes

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return self.source.sizes[0]

    def weights(self, head: int | None = None) -> Float[Tensor, "*head query key"]:
        """The exact weights of a head, or of all heads; refused where they are too many."""
        heads = range(self.heads) if head is None else [head]
        numbers = len(heads) * len(self.rows) * len(self.columns)
        if numbers > MOST:
            raise InputError(
                f"the weights of {self.site!r} are {numbers:,} numbers, more than {MOST:,}; ask "
                "for one head, for a part with .part(...), or for a window with a zoom"
            )
        rows, columns = range(len(self.rows)), range(len(self.columns))
        found = [self.window(each, rows, columns).mean for each in heads]
        return torch.stack(found) if head is None else found[0]

    def window(self, head: int, rows: range, columns: range, zoom: int = 1) -> Pooled:
        """The exact weights of a rectangle of a head, pooled in cells of zoom x zoom.

        Read off the atlas where its cells fit the rectangle and the zoom, else computed again.
        """
        if not 0 <= head < self.heads:
            raise InputError(f"no head {head} at {self.site!r}; it has heads 0 to {self.heads - 1}")
        region = Region(rows, columns, head, 0, zoom)
        region.check(1, *self.shape)
        found = None if self.atlas is None else read_off(self.atlas, region, self.shape[1:])
        return self.source.look(region) if found is None else found

    @property
    def offset(self) -> int:
        """Row i stands at column offset + i: how far the first row is from the first column."""
        if isinstance(self.source, Recomputable):
            return self.source.scoring.offset
        return self.rows.places[0] - self.columns.places[0] if 0 not in self.shape else 0

    @cached_property
    def numbers(self) -> Statistics:
        """The numbers of the rows: those that were kept, else counted exactly from the weights.

        Counted ones are of the columns that the map has, kept ones of the whole rows.

        >>> import torch
        >>> from regard.types import Trace
        >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
        >>> trace["weights"].numbers.on_self
        tensor([[1., 1., 1.]])
        """
        if self.statistics is not None:
            return self.statistics
        return counting.statistics(self.source, self.offset)

    def received(self, labels: Int[Tensor, " key"] | None = None) -> Received:
        """What each column received from all rows, exactly, and each row's mass per label.

        A label is a number from 0 on for each column, such as a kind of token; negative ones count
        nowhere.

        >>> import torch
        >>> from regard.types import Trace
        >>> weights = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
        >>> trace = Trace.from_weights(weights, ["我", "爱"])
        >>> trace["weights"].received().total
        tensor([[1.2500, 0.7500]])
        """
        return counting.sums(self.source, labels)

    @cached_property
    def visible(self) -> Int[Tensor, "head query"]:
        """How many columns each row may see, by the mask.

        Where no mask was kept, a text whose rows give nothing at all to what follows them is
        taken to be masked so; else a row may see every column.
        """
        if isinstance(self.source, Recomputable):
            mask, device = self.source.scoring.mask, self.source.query.device
            return counting.visible(mask, self.shape, self.offset, device)
        ahead = self.kind == "cross" or bool(self.numbers.on_future.any())
        return counting.visible(None if ahead else causal(), self.shape, self.offset)

    def strips(self, most: int = counting.STRIP) -> Iterator[tuple[range, Tensor]]:
        """The exact weights (head query key), a run of rows at a time: never more than `most`."""
        return counting.strips(self.source, most)

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
        whole = (len(part.rows), len(part.columns)) == self.shape[1:]
        return replace(
            self,
            rows=self.rows[part.rows],
            columns=self.columns[part.columns],
            source=self.source.within(part),
            statistics=_rows_of(self.statistics, part),
            top=_rows_of(self.top, part),
            atlas=_heads_of(self.atlas, part) if whole else None,
            produced=None if self.produced is None else self.produced[part.rows],
            head_numbers=_numbers_of(self, part),
            values=_values_of(self, part),
            gradient=None if self.gradient is None else self.gradient[indices(part)[:2]],
            output=None if self.output is None else self.output[indices(part)[0]],
        )

    def __repr__(self) -> str:
        heads, rows, columns = self.shape
        return (
            f"<{self.kind} map {self.site!r}: {heads} head{'s' * (heads != 1)}"
            f"{_listed(self.head_numbers)}, "
            f"{rows} {self.rows.stream} rows x {columns} {self.columns.stream} columns, "
            f"{type(self.source).__name__.lower()}>"
        )


def _rows_of(numbers: Numbers | None, part: Part) -> Numbers | None:
    if numbers is None:
        return None
    heads, rows, _ = indices(part)
    found: dict[str, Tensor] = {
        each.name: getattr(numbers, each.name)[heads, rows] for each in fields(numbers)
    }
    for name in {"largest_key", "keys"} & {*found}:
        found[name] = renumbered(found[name], part.columns)
    return replace(numbers, **found)


def renumbered(keys: Tensor, columns: range) -> Tensor:
    """Numbers of keys counted from the first of these columns, -1 for those out of view."""
    beyond = (keys < columns.start) | (keys >= columns.stop)
    return (keys - columns.start).masked_fill(beyond, -1)


def _heads_of(atlas: Atlas | None, part: Part) -> Atlas | None:
    if atlas is None:
        return None
    heads, _, _ = indices(part)
    return replace(atlas, mean=atlas.mean[heads], largest=atlas.largest[heads])


def _numbers_of(each: AttentionMap, part: Part) -> tuple[int, ...] | None:
    """The numbers that the part's heads have in the model."""
    if part.heads is None:
        return each.head_numbers
    return tuple(
        head if each.head_numbers is None else each.head_numbers[head] for head in part.heads
    )


def _values_of(each: AttentionMap, part: Part) -> Tensor | None:
    """The part's values; where heads are chosen, each gets values of its own."""
    if each.values is None:
        return None
    values = each.values[:, part.columns.start : part.columns.stop]
    if part.heads is None:
        return values
    group = each.heads // len(values)
    return values[[head // group for head in part.heads]]


def _listed(numbers: tuple[int, ...] | None) -> str:
    if numbers is None:
        return ""
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return f" ({shown}{', …' if len(numbers) > _SHOWN else ''})"


_SHOWN = 8
