"""Attention flow: how much of each input could at most reach a token, with weights as capacities.

The network has one node for each token after each layer. From a token's node edges lead down to the
same token before the layer (the residual connection) and to the tokens that it attends to; their
capacities are the shares of `layer_graph.Strip`. All inputs are one node, the sink: for each input
in turn, only the edges that end at that input get a capacity there, and scipy's Dinic algorithm
solves the maximum flow from the queried token to the sink.

Large traces keep only the largest edges of each token. What is left out is recorded in
`CutEdges`, so that the result still has a proven upper bound: the capacity of the
smallest cut that was found, plus all left-out capacity that could cross it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.arguments import check_first_argument
from regard.attribution.clean_run import CleanRun
from regard.attribution.layer_graph import HeadChoice, Layer, LayerGraph, layer_graph
from regard.errors import InputError
from regard.types import FlowBounds, Trace

MOST_EDGES = 1 << 22  # edges of the whole network, unless the caller says how many a token keeps
UNIT = 1 << 30  # the solver counts in whole numbers: a capacity of 1.0 is this many

Nodes = NDArray[np.int64]
Numbers = NDArray[np.float64]
NodeSet = NDArray[np.bool_]


@check_first_argument
def attention_flow(
    trace: Trace,
    query: int,
    *,
    inputs: Sequence[int] | None = None,
    edges: int | None = None,
    heads: HeadChoice = None,
    queries: str | None = None,
    keys: str | None = None,
) -> FlowBounds:
    """The maximum flow from a token after the last layer to inputs (Abnar and Zuidema 2020).

    Capacities are those of `rollout`, 0.5 A + 0.5 I; `heads`, `queries` and `keys` are its options
    too. `inputs` chooses some of the columns. Each token keeps its `edges` largest edges. Without a
    number, all edges are kept up to four million in the whole network, and then the flow is exact
    but for rounding. Edges of total capacity c that are left out make a flow smaller by at most c;
    `most` counts what of it crosses the smallest cut, for each input.

    >>> import torch
    >>> from regard.attribution import attention_flow
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 1, 2, 2)
    >>> attention_flow(Trace.from_weights(weights, ["我", "爱"]), 1).least
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    graph = layer_graph(trace, heads, queries, keys)
    start, positions = graph.position_of_row(query), _input_positions(graph, inputs)
    if edges is not None and edges < 1:
        raise InputError(f"expected to keep one edge of each token at least, got {edges}")
    if all(layer.rows != graph.rows.stream for layer in graph.layers):
        return _flow_without_layers(graph, start, positions)
    rows = sum(len(layer.map.rows) for layer in graph.layers)
    network = FlowNetwork(graph, start, positions, edges or max(1, MOST_EDGES // rows))
    bounds = [network.flow(number) for number in range(len(positions))]
    least, most = torch.tensor(bounds, dtype=torch.float64).unbind(dim=1)
    return FlowBounds(least, most)


def token_flow(run: CleanRun) -> Float[Tensor, " token"]:
    """The flow of each token into the objective: the mean over the objective's rows."""
    rows = run.objective_rows() or list(range(len(run.last_map.rows)))
    flows = [attention_flow(run.trace, row).least for row in rows]
    return run.columns_to_tokens(torch.stack(flows).mean(dim=0))


def _input_positions(graph: LayerGraph, inputs: Sequence[int] | None) -> list[int]:
    count = len(graph.columns)
    wrong = [each for each in inputs or () if not -count <= each < count]
    if wrong or (inputs is not None and not len(inputs)):
        raise InputError(f"expected some of the {count} inputs, got {wrong or list(inputs or ())}")
    chosen = range(count) if inputs is None else inputs
    return [graph.columns.positions[each] for each in chosen]


def _flow_without_layers(graph: LayerGraph, start: int, positions: Sequence[int]) -> FlowBounds:
    """The flow of a token whose stream attends to nothing: it is its own only input."""
    same_stream = graph.rows.stream == graph.columns.stream
    shares = [float(same_stream and position == start) for position in positions]
    flow = torch.tensor(shares, dtype=torch.float64)
    return FlowBounds(flow, flow)


@dataclass(frozen=True, eq=False)
class CutEdges:
    """The capacity of edges that were left out between two rows of nodes.

    `leaving` is its sum for each upper node, `arriving` its sum for each lower node.
    """

    above: Nodes
    below: Nodes
    leaving: Numbers
    arriving: Numbers

    def across(self, inside: NodeSet) -> float:
        """An upper bound of the capacity that leads from the inside nodes to the others."""
        leaving = self.leaving[inside[self.above]].sum()
        arriving = self.arriving[~inside[self.below]].sum()
        return float(min(leaving, arriving))


class FlowNetwork:
    """The edges that can be reached from one token after the last layer, as scipy takes them.

    Edges from the queried token itself and edges that end at an input are never left out.
    """

    def __init__(self, graph: LayerGraph, start: int, inputs: Sequence[int], edges: int) -> None:
        self._sizes, self._starts, self._sink = graph.sizes, dict[str, int](), 0
        # the layers of each stream that are still below: they are added from the last to the first
        self._levels = {
            name: sum(layer.rows == name for layer in graph.layers) for name in graph.sizes
        }
        for name, size in graph.sizes.items():
            self._starts[name] = self._sink
            self._sink += size * (1 + self._levels[name])
        self._source = int(self._nodes(graph.rows.stream)[start])
        self._reached = np.zeros(self._sink + 1, dtype=bool)
        self._reached[self._source] = True
        self._stream, self._inputs = graph.columns.stream, np.array(inputs, dtype=np.int64)
        self._edges = list[tuple[Nodes, Nodes, Numbers]]()
        self._input_edges, self._cut = list[tuple[Nodes, Numbers]](), list[CutEdges]()
        for layer in reversed(graph.layers):
            self._add_layer(layer, edges)
        self._build_matrix()

    def flow(self, number: int) -> tuple[float, float]:
        """A flow that can reach one of the inputs, and an upper bound of every flow to it."""
        into = np.zeros(self._sink + 1)
        for nodes, capacity in self._input_edges:
            into[nodes] += capacity[:, number]
        self._matrix.data[self._sink_entries] = np.floor(into[self._sink_nodes] * UNIT)
        solved = _scipy_sparse(".csgraph").maximum_flow(self._matrix, self._source, self._sink)
        residual = self._matrix - solved.flow
        residual.data = (residual.data > 0).astype(np.int32)
        residual.eliminate_zeros()
        # two minimum cuts: around all that the source still reaches, and around the sink
        from_source = self._reachable(residual, self._source)
        to_sink = self._reachable(residual.T.tocsr(), self._sink)
        least = float(solved.flow_value) / UNIT
        cuts = [
            self._capacity_across(inside) + float(into[inside].sum())
            for inside in (from_source, ~to_sink)
        ]
        return least, max(least, min(1.0, *cuts))

    def _nodes(self, stream: str) -> Nodes:
        """The nodes of a stream's tokens after the layers of it that are still below."""
        size = self._sizes[stream]
        first = self._starts[stream] + self._levels[stream] * size
        return np.arange(first, first + size)

    def _add_layer(self, layer: Layer, edges: int) -> None:
        """Add the edges of a layer from the tokens that were reached from above."""
        above = self._nodes(layer.rows)
        self._levels[layer.rows] -= 1
        reached = self._reached[above]
        keeps = reached.astype(np.float64)  # a token without a row passes through unchanged
        for strip in layer.strips(torch.from_numpy(reached)):
            tokens = strip.tokens.numpy()
            chosen = reached[tokens]
            keeps[tokens[chosen]] = strip.keeps.numpy()[chosen]
            most = strip.takes.shape[1] if reached.sum() == 1 else edges
            self._add_attention(layer, above[tokens[chosen]], strip.takes.numpy()[chosen], most)
        self._add_residual(layer.rows, above, keeps)

    def _add_attention(self, layer: Layer, above: Nodes, takes: Numbers, edges: int) -> None:
        """Add edges from tokens to the keys that they attend to."""
        keys = layer.keys.numpy()
        if not self._levels[layer.columns]:
            if layer.columns == self._stream:
                every = np.zeros((len(takes), self._sizes[layer.columns]))
                every[:, keys] = takes
                self._input_edges.append((above, every[:, self._inputs]))
            return
        below = self._nodes(layer.columns)[keys]
        self._reached[below] |= takes.any(axis=0)
        rows, columns = _largest_edges(takes, edges)
        self._edges.append((above[rows], below[columns], takes[rows, columns]))
        if edges < takes.shape[1]:
            rest = takes.copy()
            rest[rows, columns] = 0
            self._cut.append(CutEdges(above, below, rest.sum(axis=1), rest.sum(axis=0)))

    def _add_residual(self, stream: str, above: Nodes, keeps: Numbers) -> None:
        """Add edges from tokens to themselves before the layer."""
        below = self._nodes(stream)
        if self._levels[stream]:
            self._edges.append((above, below, keeps))
            self._reached[below] |= keeps > 0
        elif stream == self._stream:
            self._input_edges.append((above[self._inputs], np.diag(keeps[self._inputs])))

    def _build_matrix(self) -> None:
        """Make the sparse matrix of capacities, with an entry for each edge to the sink."""
        nodes = [above for above, _ in self._input_edges] or [np.zeros(0, dtype=np.int64)]
        last = np.unique(np.concatenate(nodes))
        to_sink = (last, np.full(len(last), self._sink), np.zeros(len(last)))
        self._above, self._below, self._capacity = map(
            np.concatenate, zip(*self._edges, to_sink, strict=True)
        )
        capacity = np.floor(self._capacity * UNIT).astype(np.int32)
        sizes = (self._sink + 1, self._sink + 1)
        ends = (self._above, self._below)
        self._matrix = _scipy_sparse("").csr_matrix((capacity, ends), shape=sizes)
        self._sink_entries = (self._matrix.indices == self._sink).nonzero()[0]
        self._sink_nodes = last  # both are in the order of the matrix's rows

    def _reachable(self, residual: Any, node: int) -> NodeSet:
        """The nodes that can be reached from one by edges with capacity left."""
        reached = np.zeros(self._sink + 1, dtype=bool)
        search = _scipy_sparse(".csgraph").breadth_first_order
        reached[search(residual, node, return_predecessors=False)] = True
        return reached

    def _capacity_across(self, inside: NodeSet) -> float:
        """An upper bound of the capacity from the inside nodes to others, except to the sink."""
        crossing = inside[self._above] & ~inside[self._below]
        cut = sum(each.across(inside) for each in self._cut)
        return float(self._capacity[crossing].sum()) + cut


def _largest_edges(takes: Numbers, edges: int) -> tuple[Nodes, Nodes]:
    """The rows and columns of the largest edges of each row."""
    if edges >= takes.shape[1]:
        rows, columns = takes.nonzero()
        return rows, columns
    columns = np.argpartition(-takes, edges - 1, axis=1)[:, :edges]
    return np.repeat(np.arange(len(takes)), edges), columns.reshape(-1)


def _scipy_sparse(part: str) -> Any:
    try:
        return import_module(f"scipy.sparse{part}")
    except ImportError as error:
        raise InputError(
            "attention flow needs scipy; install it with: pip install 'regard[flow]'"
        ) from error
