"""The maps of a trace as the layers of one graph, from the queried token down to the inputs.

Rollout, flow and relevance follow information from the tokens after the last layer back to the
inputs. Each map is a layer whose edges lead from a query to the keys that it attends to, and from
the query to itself, for the residual connection.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import InputError, UnknownNameError
from regard.types import AttentionMap, Axis, Trace

# The heads that are averaged: the same of every map, or by site; None is all heads.
HeadChoice = Sequence[int] | Mapping[str, Sequence[int]] | None

_WINDOW = re.compile(r"@\d+$")  # the end of a site's name that tells the windows of a layer apart


class Strip(NamedTuple):
    """Some rows of a layer: their tokens, the share that each keeps, and the shares it takes.

    The residual connection counts as much as attention: 0.5 A + 0.5 I, each row divided by its sum
    (Abnar and Zuidema 2020, section 3).
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
        """The name of the stream that the queries belong to."""
        return self.map.rows.stream

    @property
    def columns(self) -> str:
        """The name of the stream that the keys belong to."""
        return self.map.columns.stream

    @property
    def keys(self) -> Int[Tensor, " key"]:
        """The position in its stream of each column's token."""
        return torch.tensor(self.map.columns.positions)

    def strips(self, needed: Bool[Tensor, " token"] | None = None) -> Iterator[Strip]:
        """All rows, or those from the first to the last needed token, a few at a time."""
        part = self.part(needed)
        if part is None:
            return
        for run, weights in part.row_strips():
            mean = weights.mean(dim=0).double().cpu()
            keeps = 1 / (1 + mean.sum(dim=1))
            tokens = torch.tensor(part.rows[run].positions)
            yield Strip(tokens, keeps, mean * keeps[:, None])

    def part(self, needed: Bool[Tensor, " token"] | None = None) -> AttentionMap | None:
        """The rows from the first to the last needed token, None if no token is needed."""
        if needed is None:
            return self.map
        rows = needed[torch.tensor(self.map.rows.positions)].nonzero()[:, 0].tolist()
        columns = range(len(self.map.columns))
        return self.map.part(range(rows[0], rows[-1] + 1), columns) if rows else None


@dataclass(frozen=True, eq=False)
class LayerGraph:
    """The layers in the order in which they ran, and the axes of the result.

    `sizes` has the length of each stream; `rows` and `columns` are the tokens between which the
    attribution is computed.
    """

    layers: tuple[Layer, ...]
    sizes: Mapping[str, int]
    rows: Axis
    columns: Axis

    def position_of_row(self, query: int) -> int:
        """The position in its stream of the token of a row."""
        count = len(self.rows)
        if not -count <= query < count:
            raise InputError(f"expected a query within the {count} rows, got {query}")
        return self.rows.positions[query]


def layer_graph(
    trace: Trace, heads: HeadChoice = None, queries: str | None = None, keys: str | None = None
) -> LayerGraph:
    """The graph of a trace between two streams, `queries` and `keys`.

    Without names, `queries` is the stream of the last map, and `keys` the stream that it attends to
    by cross-attention, or itself where there is none.
    """
    if not trace.maps:
        raise InputError("expected a trace with maps, got one without; see its gaps")
    layers = tuple(Layer(_choose_heads(each, heads)) for each in trace.maps)
    sizes = {name: len(tokens) for name, tokens in trace.streams.items()}
    for name in (queries, keys):
        if name is not None and name not in sizes:
            raise UnknownNameError("stream", name, sizes)
    above = queries or layers[-1].rows
    across = [layer.columns for layer in layers if above == layer.rows != layer.columns]
    below = keys or (across[-1] if across else above)
    return LayerGraph(layers, sizes, *_axes(layers, sizes, above, below))


def _axes(
    layers: Sequence[Layer], sizes: Mapping[str, int], above: str, below: str
) -> tuple[Axis, Axis]:
    """The axes of the last map between two streams; all tokens where there is no such map."""
    for layer in reversed(layers):
        if (layer.rows, layer.columns) == (above, below):
            return layer.map.rows, layer.map.columns
    rows, columns = (Axis(name, tuple(range(sizes[name]))) for name in (above, below))
    return rows, columns


def _choose_heads(attention_map: AttentionMap, heads: HeadChoice) -> AttentionMap:
    site = attention_map.site
    if _WINDOW.search(site):
        raise InputError(
            f"{site!r} looks within a window of its own, whose tokens are not those of the "
            "layer before: layers of windows cannot be joined; ask about one of them"
        )
    chosen = heads.get(site) if isinstance(heads, Mapping) else heads
    return attention_map if chosen is None else attention_map.select(list(chosen))
