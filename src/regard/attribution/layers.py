"""The maps of a trace as the layers of one graph, from the last token looked from to the inputs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import InputError, UnknownNameError
from regard.types import AttentionMap, Axis, Trace

Heads = Sequence[int] | Mapping[str, Sequence[int]] | None  # of every map, or by site; None is all

_WINDOW = re.compile(r"@\d+$")  # what tells the windows of one layer apart


class Strip(NamedTuple):
    """Some rows of a layer: their tokens, what each keeps of itself, and what it takes of others.

    The residual connection counts as much as attention: 0.5 A + 0.5 I, each row over its sum
    (Abnar & Zuidema 2020, section 3).
    """

    tokens: Int[Tensor, " query"]
    keeps: Float[Tensor, " query"]
    takes: Float[Tensor, "query key"]


@dataclass(frozen=True, eq=False)
class Layer:
    """One map of a trace, the mean of its chosen heads."""

    map: AttentionMap

    @property
    def rows(self) -> str:
        """The stream that looks."""
        return self.map.rows.stream

    @property
    def columns(self) -> str:
        """The stream that is looked at."""
        return self.map.columns.stream

    @property
    def keys(self) -> Int[Tensor, " key"]:
        """The tokens that the columns are."""
        return torch.tensor(self.map.columns.places)

    def strips(self, wanted: Bool[Tensor, " token"] | None = None) -> Iterator[Strip]:
        """All rows, or those between the first and the last wanted token, a few at a time."""
        part = self.part(wanted)
        if part is None:
            return
        for run, weights in part.strips():
            mean = weights.mean(dim=0).double().cpu()
            keeps = 1 / (1 + mean.sum(dim=1))
            tokens = torch.tensor(part.rows[run].places)
            yield Strip(tokens, keeps, mean * keeps[:, None])

    def part(self, wanted: Bool[Tensor, " token"] | None = None) -> AttentionMap | None:
        """The rows between the first and the last wanted token, None if there is none."""
        if wanted is None:
            return self.map
        chosen = wanted[torch.tensor(self.map.rows.places)].nonzero()[:, 0].tolist()
        columns = range(len(self.map.columns))
        return self.map.part(range(chosen[0], chosen[-1] + 1), columns) if chosen else None


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers in the order in which they ran, and the tokens between which they are asked."""

    each: tuple[Layer, ...]
    sizes: Mapping[str, int]
    rows: Axis
    columns: Axis

    def token(self, query: int) -> int:
        """The token of the asked row."""
        count = len(self.rows)
        if not -count <= query < count:
            raise InputError(f"expected a query within the {count} rows, got {query}")
        return self.rows.places[query]


def layers(
    trace: Trace, heads: Heads = None, queries: str | None = None, keys: str | None = None
) -> Layers:
    """The layers of a trace; `queries` and `keys` are the streams that are asked about.

    Without them it is the stream of the last map, and what it looks across at, if it does.
    """
    if not trace.maps:
        raise InputError("expected a trace with maps, got one without; see its gaps")
    found = tuple(Layer(_chosen(each, heads)) for each in trace.maps)
    sizes = {name: len(tokens) for name, tokens in trace.streams.items()}
    for name in (queries, keys):
        if name is not None and name not in sizes:
            raise UnknownNameError("stream", name, sizes)
    above = queries or found[-1].rows
    across = [each.columns for each in found if above == each.rows != each.columns]
    below = keys or (across[-1] if across else above)
    return Layers(found, sizes, *_axes(found, sizes, above, below))


def _axes(
    found: Sequence[Layer], sizes: Mapping[str, int], above: str, below: str
) -> tuple[Axis, Axis]:
    """The rows and columns of the last map between two streams; all tokens where there is none."""
    for each in reversed(found):
        if (each.rows, each.columns) == (above, below):
            return each.map.rows, each.map.columns
    rows, columns = (Axis(name, tuple(range(sizes[name]))) for name in (above, below))
    return rows, columns


def _chosen(each: AttentionMap, heads: Heads) -> AttentionMap:
    if _WINDOW.search(each.site):
        raise InputError(
            f"{each.site!r} looks within a window of its own, whose tokens are not those of the "
            "layer before: layers of windows cannot be joined; ask about one of them"
        )
    chosen = heads.get(each.site) if isinstance(heads, Mapping) else heads
    return each if chosen is None else each.select(list(chosen))
