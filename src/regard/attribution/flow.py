"""Attention flow: how much of each input could at most reach a token, were weights capacities."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attribution.flowgraph import Graph
from regard.attribution.layers import Heads, Layers, layers
from regard.errors import InputError
from regard.types import Trace

EDGES = 1 << 22  # edges that are kept in all, unless the caller says how many each token keeps


@dataclass(frozen=True, eq=False)
class Flow:
    """The largest flow from one token to each input, between two bounds that are both proven.

    `least` is a flow that the graph can carry, `most` the capacity of a cut between the two
    tokens, with all of it that was left out or rounded down counted again.
    """

    least: Float[Tensor, " key"]
    most: Float[Tensor, " key"]

    @property
    def error(self) -> float:
        """By how much `least` may be too small, for any of the inputs."""
        return float((self.most - self.least).max())


def attention_flow(
    trace: Trace,
    query: int,
    *,
    inputs: Sequence[int] | None = None,
    edges: int | None = None,
    heads: Heads = None,
    queries: str | None = None,
    keys: str | None = None,
) -> Flow:
    """The maximum flow from a token after the last layer to inputs (Abnar and Zuidema 2020).

    Capacities are those of `rollout`, 0.5 A + 0.5 I, and so are `heads`, `queries` and `keys`.
    `inputs` are some of the columns. A token keeps its `edges` largest; without a number, all of
    them up to four million in the whole graph, and then the flow is exact but for rounding. To
    leave out edges of a capacity c in all makes a flow smaller by c at most; by how much of it
    crosses the smallest cut, `most` says for each input.

    >>> import torch
    >>> from regard.attribution.flow import attention_flow
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 1, 2, 2)
    >>> attention_flow(Trace.from_weights(weights, ["我", "爱"]), 1).least
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    found = layers(trace, heads, queries, keys)
    start, places = found.token(query), _inputs(found, inputs)
    if edges is not None and edges < 1:
        raise InputError(f"expected to keep one edge of each token at least, got {edges}")
    if all(each.rows != found.rows.stream for each in found.each):
        return _itself(found, start, places)
    total = sum(len(each.map.rows) for each in found.each)
    graph = Graph(found, start, places, edges or max(1, EDGES // total))
    bounds = [graph.flow(number) for number in range(len(places))]
    least, most = torch.tensor(bounds, dtype=torch.float64).unbind(dim=1)
    return Flow(least, most)


def _inputs(found: Layers, inputs: Sequence[int] | None) -> list[int]:
    count = len(found.columns)
    wrong = [each for each in inputs or () if not -count <= each < count]
    if wrong or (inputs is not None and not len(inputs)):
        raise InputError(f"expected some of the {count} inputs, got {wrong or list(inputs or ())}")
    chosen = range(count) if inputs is None else inputs
    return [found.columns.places[each] for each in chosen]


def _itself(found: Layers, start: int, places: Sequence[int]) -> Flow:
    """A token of a stream that looks at nothing is its own input."""
    own = found.rows.stream == found.columns.stream
    flow = torch.tensor([float(own and each == start) for each in places], dtype=torch.float64)
    return Flow(flow, flow)
