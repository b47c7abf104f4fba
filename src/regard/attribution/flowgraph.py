"""The graph that attention flows through: tokens after each layer, weights as capacities."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attribution.layers import Layer, Layers
from regard.errors import InputError

UNIT = 1 << 30  # the solver counts in whole numbers: a capacity of one is as many

Nodes = NDArray[np.int64]
Numbers = NDArray[np.float64]
Chosen = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Lost:
    """What was left out of the edges between two rows of nodes, from each and to each."""

    above: Nodes
    below: Nodes
    left: Numbers
    came: Numbers

    def across(self, inside: Chosen) -> float:
        """What of it went from inside to outside, at most."""
        left, came = self.left[inside[self.above]].sum(), self.came[~inside[self.below]].sum()
        return float(min(left, came))


class Graph:
    """What can be reached from one token after the last layer, down to the first.

    The inputs are one node, the sink, to which the edges of each of them lead in turn: there, and
    from the token itself, nothing is left out. Elsewhere a token keeps its largest edges.
    """

    def __init__(self, found: Layers, start: int, inputs: Sequence[int], edges: int) -> None:
        self._sizes, self._starts, self._sink = found.sizes, dict[str, int](), 0
        self._levels = {name: sum(e.rows == name for e in found.each) for name in found.sizes}
        for name, size in found.sizes.items():
            self._starts[name] = self._sink
            self._sink += size * (1 + self._levels[name])
        self._source = int(self._nodes(found.rows.stream)[start])
        self._reached = np.zeros(self._sink + 1, dtype=bool)
        self._reached[self._source] = True
        self._stream, self._inputs = found.columns.stream, np.array(inputs, dtype=np.int64)
        self._edges = list[tuple[Nodes, Nodes, Numbers]]()
        self._ends, self._lost = list[tuple[Nodes, Numbers]](), list[Lost]()
        for layer in reversed(found.each):
            self._add(layer, edges)
        self._settle()

    def flow(self, number: int) -> tuple[float, float]:
        """What can flow to one of the inputs, and what no flow to it exceeds."""
        into = np.zeros(self._sink + 1)
        for nodes, capacity in self._ends:
            into[nodes] += capacity[:, number]
        self._whole.data[self._last] = np.floor(into[self._last_nodes] * UNIT)
        solved = _scipy(".csgraph").maximum_flow(self._whole, self._source, self._sink)
        left = self._whole - solved.flow
        left.data = (left.data > 0).astype(np.int32)
        left.eliminate_zeros()
        # the smallest cuts: around all that the source still reaches, and all that reaches the sink
        cuts = [self._around(left, self._source), ~self._around(left.T.tocsr(), self._sink)]
        least = float(solved.flow_value) / UNIT
        most = min(1.0, *(self._across(inside) + float(into[inside].sum()) for inside in cuts))
        return least, max(least, most)

    def _nodes(self, stream: str) -> Nodes:
        """The nodes of a stream after as many of its layers as are left."""
        size = self._sizes[stream]
        first = self._starts[stream] + self._levels[stream] * size
        return np.arange(first, first + size)

    def _add(self, layer: Layer, edges: int) -> None:
        """The edges of a layer from tokens that were reached, to what they looked at and kept."""
        above = self._nodes(layer.rows)
        self._levels[layer.rows] -= 1
        here = self._reached[above]
        keeps = here.astype(np.float64)  # a token without a row stays as it is
        for strip in layer.strips(torch.from_numpy(here)):
            tokens = strip.tokens.numpy()
            chosen = here[tokens]
            keeps[tokens[chosen]] = strip.keeps.numpy()[chosen]
            most = strip.takes.shape[1] if here.sum() == 1 else edges
            self._take(layer, above[tokens[chosen]], strip.takes.numpy()[chosen], most)
        self._keep(layer.rows, above, keeps)

    def _take(self, layer: Layer, above: Nodes, takes: Numbers, edges: int) -> None:
        """What tokens took of those that they looked at."""
        keys = layer.keys.numpy()
        if not self._levels[layer.columns]:
            if layer.columns == self._stream:
                whole = np.zeros((len(takes), self._sizes[layer.columns]))
                whole[:, keys] = takes
                self._ends.append((above, whole[:, self._inputs]))
            return
        below = self._nodes(layer.columns)[keys]
        self._reached[below] |= takes.any(axis=0)
        rows, columns = _largest(takes, edges)
        self._edges.append((above[rows], below[columns], takes[rows, columns]))
        if edges < takes.shape[1]:
            rest = takes.copy()
            rest[rows, columns] = 0
            self._lost.append(Lost(above, below, rest.sum(axis=1), rest.sum(axis=0)))

    def _keep(self, stream: str, above: Nodes, keeps: Numbers) -> None:
        """What tokens kept of themselves."""
        below = self._nodes(stream)
        if self._levels[stream]:
            self._edges.append((above, below, keeps))
            self._reached[below] |= keeps > 0
        elif stream == self._stream:
            self._ends.append((above[self._inputs], np.diag(keeps[self._inputs])))

    def _settle(self) -> None:
        """The edges as the solver takes them, with a place for each that may lead to the sink."""
        ends = [nodes for nodes, _ in self._ends] or [np.zeros(0, dtype=np.int64)]
        last = np.unique(np.concatenate(ends))
        sink = (last, np.full(len(last), self._sink), np.zeros(len(last)))
        self._above, self._below, self._capacity = map(
            np.concatenate, zip(*self._edges, sink, strict=True)
        )
        capacity = np.floor(self._capacity * UNIT).astype(np.int32)
        sizes = (self._sink + 1, self._sink + 1)
        self._whole = _scipy("").csr_matrix((capacity, (self._above, self._below)), shape=sizes)
        self._last = (self._whole.indices == self._sink).nonzero()[0]
        self._last_nodes = last  # rows of the matrix come in order

    def _around(self, left: Any, node: int) -> Chosen:
        """The nodes that can be reached from one by what is left of the edges."""
        found = np.zeros(self._sink + 1, dtype=bool)
        search = _scipy(".csgraph").breadth_first_order
        found[search(left, node, return_predecessors=False)] = True
        return found

    def _across(self, inside: Chosen) -> float:
        """The capacity from inside to outside but for the sink, at most."""
        crossing = inside[self._above] & ~inside[self._below]
        lost = sum(each.across(inside) for each in self._lost)
        return float(self._capacity[crossing].sum()) + lost


def _largest(takes: Numbers, edges: int) -> tuple[Nodes, Nodes]:
    """The rows and columns of the largest edges of each row."""
    if edges >= takes.shape[1]:
        rows, columns = takes.nonzero()
        return rows, columns
    columns = np.argpartition(-takes, edges - 1, axis=1)[:, :edges]
    return np.repeat(np.arange(len(takes)), edges), columns.reshape(-1)


def _scipy(part: str) -> Any:
    try:
        return import_module(f"scipy.sparse{part}")
    except ImportError as error:
        raise InputError(
            "attention flow needs scipy; install it with: pip install 'regard[flow]'"
        ) from error
