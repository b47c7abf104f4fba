"""Follows tensors with a row for each edge of a graph, and reports attention along the edges.

The states of `edges.py` are kept beside origins, by tensor. They begin where rows are copied by an
index, as from nodes to edges. A model that never does this pays for one look-up for each function;
a mixture of experts, which copies rows too, only for as long as the copies live.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.edges import (
    UNCLEAR,
    EdgeEnd,
    EdgeExponentials,
    EdgeRows,
    EdgeState,
    EdgeSum,
    EdgeWeights,
    Ends,
    TargetSums,
    UndividedContext,
    WeightedEdges,
    are_same,
    are_scores,
    describe_size,
    find_source,
    gives_rows,
    join_ends,
    map_of_edges,
    read_gather,
    read_index,
    read_sum,
    weights_by_head,
)
from regard.tracing.dataflow.example_facts import ExampleFacts
from regard.tracing.dataflow.gaps import Gaps
from regard.tracing.dataflow.origins import (
    ManualWeights,
    StreamPair,
    StreamSide,
    origin_of,
    set_origin,
    stream_origin,
    tensors_in,
)
from regard.tracing.dataflow.position_mixing import ReportWeights
from regard.tracing.dataflow.propagation import Args, Kwargs
from regard.tracing.dataflow.rule_table import Rule
from regard.tracing.dataflow.softmax import TIMES
from regard.tracing.readable import are_readable
from regard.tracing.sites import Sites

GATHERS = frozenset(("index_select", "__getitem__", "gather"))
_ADDING = ("scatter_add", "index_add", "scatter_reduce", "index_put")
_SUMS = frozenset((*_ADDING, *(f"{name}_" for name in _ADDING)))
_DIVISIONS = frozenset(("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"))
_PRODUCTS = TIMES | {"einsum"}
_KEEP_NUMBERS = frozenset(("carry", "layout"))  # rules of functions that only copy or reshape
_MOST_AXES = 3  # of a tensor of nodes: nodes, heads, features
_NODES = "nodes"  # the stream of nodes that began with no input that is known

Stated = tuple[Tensor, EdgeState]


class EdgeAttention:
    """The tensors of the running model that have a row for each edge, and what these rows are."""

    def __init__(
        self, sites: Sites, gaps: Gaps, report: ReportWeights, facts: ExampleFacts
    ) -> None:
        self._sites, self._gaps, self._report, self._facts = sites, gaps, report, facts
        self.states: dict[int, tuple[weakref.ref[Tensor], EdgeState]] = {}

    def follow(self, rule: Rule, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Write the state of the result of a function; runs only if it gathers, or has states."""
        name = rule[1]
        if not self.states and name == "__getitem__" and not isinstance(args[1], Tensor | tuple):
            return
        if not isinstance(result, Tensor) or is_backward():
            return
        if name in GATHERS:
            self._set(result, self._gather(name, args, kwargs, result))
            return
        operands = [*tensors_in((*args, *kwargs.values()))]
        stated = [
            (tensor, state) for tensor in operands if (state := self._state_of(tensor)) is not None
        ]
        if not stated:
            return
        if name in _SUMS:
            self._set(result, self._sum(name, args, kwargs, result))
        elif result.dim() and result.dtype.is_floating_point:
            self._set(result, self._combine(rule, operands, stated, result))

    def _state_of(self, tensor: Tensor) -> EdgeState | None:
        entry = self.states.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def _set(self, tensor: Tensor, state: EdgeState | None) -> None:
        """Write the state of a tensor, which is forgotten with the tensor; None removes it."""
        key = id(tensor)
        if state is None:
            self.states.pop(key, None)
            return

        def forget(reference: weakref.ref[Tensor], states: Any = self.states) -> None:
            if key in states and states[key][0] is reference:
                del states[key]

        self.states[key] = (weakref.ref(tensor, forget), state)

    def _gather(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> EdgeState | None:
        """The state of rows that were copied by an index: one end of each edge, or sums."""
        source, index = read_gather(name, args, kwargs)
        if index is None or not isinstance(source, Tensor):
            state = self._state_of(args[0]) if args and isinstance(args[0], Tensor) else None
            keeps_rows = state is not None and result.dim() and len(result) == len(args[0])
            return state if keeps_rows and name == "__getitem__" else None
        if not result.dtype.is_floating_point or not are_readable((index,)):
            return None
        index = read_index(index)
        if index is None:
            return None
        state = self._state_of(source)
        if isinstance(state, TargetSums) and not state.on_edges and are_same(state.indices, index):
            return replace(state, on_edges=True)
        # rows of edges that are copied again belong to other edges than before
        if state is not None and not isinstance(state, TargetSums):
            return None
        origin = origin_of(source)
        if origin.layout == "constant":
            return None  # parameters of each kind of edge
        if source.dim() > _MOST_AXES or (origin.axis and origin.axis != -source.dim()):
            return None  # rows of a batch, as where a beam search reorders a cache
        return EdgeRows((EdgeEnd(index, len(source), origin.stream),))

    def _sum(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> EdgeState | None:
        """The state of rows that were added up at nodes; weighted ones are reported."""
        context = read_sum(name, args, kwargs, result)
        state = None if context is None else self._state_of(context.rows)
        if context is None or state is None:
            return None
        if isinstance(state, EdgeExponentials) and not context.is_mean:
            return TargetSums(state, context.indices)
        if isinstance(state, WeightedEdges) and state.exponentials is not None:
            return UndividedContext(context, state)
        if isinstance(state, WeightedEdges):
            self._meet(state, context, result)
        return None

    def _combine(
        self, rule: Rule, operands: Sequence[Tensor], stated: Sequence[Stated], result: Tensor
    ) -> EdgeState | None:
        """The state of a function of tensors that have one, the furthest on to weights first."""
        for kind, combine in self._rules:
            for tensor, state in stated:
                if isinstance(state, kind):
                    if len(result) != len(tensor):
                        return None
                    others = [other for other in operands if other is not tensor]
                    return combine(self, rule, (tensor, state), others, result)
        return None

    def _change_context(
        self, rule: Rule, own: Stated, others: Sequence[Tensor], result: Tensor
    ) -> EdgeState | None:
        """Values summed by exponentials: divided by their sums they are a context."""
        state = own[1]
        assert isinstance(state, UndividedContext)
        divisor = self._state_of(others[0]) if others else None
        exponentials = state.weighted.exponentials
        if isinstance(divisor, TargetSums):
            is_own = divisor.exponentials is exponentials and not divisor.on_edges
            if is_own and rule[1] in _DIVISIONS:
                sums = others[0].detach().index_select(0, state.sum.indices)
                weights = state.weighted.weights / sums
                rows = state.sum.rows.detach() / sums
                weighted = replace(state.weighted, weights=weights)
                self._meet(weighted, state.sum._replace(rows=rows), result)
            return None
        return state if rule[0] in _KEEP_NUMBERS else None

    def _weight(
        self, rule: Rule, own: Stated, others: Sequence[Tensor], result: Tensor
    ) -> EdgeState | None:
        """Weights of edges: times values, or changed as by dropout."""
        tensor, state = own
        if isinstance(state, WeightedEdges) and not state.is_sure:
            if rule[0] in _KEEP_NUMBERS:
                return state
            return EdgeRows(join_ends((state.weight_ends, state.value_ends)))
        if rule[1] in _PRODUCTS and len(others) == 1:
            values = self._state_of(others[0])
            # rows without a state are values if there is more than one number for each weight
            if isinstance(values, EdgeRows) or (
                values is None and len(others[0]) == len(result) and result.numel() > tensor.numel()
            ):
                return self._multiply(own, others[0], values, result)
        if isinstance(state, EdgeExponentials):
            divisor = self._state_of(others[0]) if others else None
            if isinstance(divisor, TargetSums) and divisor.on_edges:
                is_own = divisor.exponentials is state
                return EdgeWeights(state.ends) if is_own else None
            if rule[0] not in _KEEP_NUMBERS:
                is_scaled = rule[0] in ("combine", "elementwise")
                return EdgeExponentials(state.ends) if is_scaled else EdgeRows(state.ends)
        return state

    def _multiply(
        self, own: Stated, values: Tensor, rows: EdgeState | None, result: Tensor
    ) -> EdgeState:
        """Weights of edges times values."""
        weights, state = own
        value_ends = rows.ends if isinstance(rows, EdgeRows) else ()
        exponentials: EdgeExponentials | None = None
        if isinstance(state, WeightedEdges):  # a gate of each edge came first
            ends, exponentials = state.weight_ends, state.exponentials
        else:
            assert isinstance(state, EdgeWeights | EdgeExponentials)
            ends = state.ends
            exponentials = state if isinstance(state, EdgeExponentials) else None
        # values that were multiplied in place are not there any more
        product = result.detach().clone() if result is values else None
        return WeightedEdges(
            self._sites.here,
            weights.detach(),
            values.detach(),
            ends,
            value_ends,
            exponentials,
            product,
        )

    def _weight_by_scores(self, own: Stated, other: Tensor, result: Tensor) -> EdgeState | None:
        """Values times scores that are not normalised, as sigmoids; None for other products."""
        rows = self._state_of(other)
        if not isinstance(rows, EdgeRows) or result is own[0] or result is other:
            return None
        pairs = sorted(((other, rows), own), key=lambda pair: pair[0].numel())
        (scores, left), (values, right) = pairs
        assert isinstance(left, EdgeRows)
        assert isinstance(right, EdgeRows)
        if scores.numel() == result.numel() or not are_scores(left, right):
            return None
        return WeightedEdges(
            self._sites.here,
            scores.detach(),
            values.detach(),
            left.ends,
            right.ends,
            is_sure=False,
        )

    def _change_sums(
        self, rule: Rule, own: Stated, others: Sequence[Tensor], result: Tensor
    ) -> EdgeState | None:
        """Sums of exponentials, perhaps with a small number added, or their logarithms."""
        state = own[1]
        assert isinstance(state, TargetSums)
        rows = next((self._state_of(other) for other in others), None)
        if isinstance(rows, EdgeRows) and state.on_edges:  # scores minus the logarithm of the sums
            return EdgeRows(rows.ends, is_normalised=True)
        return state if result.numel() == own[0].numel() else None

    def _change_rows(
        self, rule: Rule, own: Stated, others: Sequence[Tensor], result: Tensor
    ) -> EdgeState | None:
        """Rows of edges, computed from those of one or more tensors."""
        if rule[1] in TIMES and len(others) == 1:
            weighted = self._weight_by_scores(own, others[0], result)
            if weighted is not None:
                return weighted
        states = (self._state_of(tensor) for tensor in (own[0], *others))
        ends = join_ends([state.ends for state in states if isinstance(state, EdgeRows)])
        if rule[0] != "exp":
            return EdgeRows(ends)
        assert isinstance(own[1], EdgeRows)
        return EdgeWeights(ends) if own[1].is_normalised else EdgeExponentials(ends)

    _rules: tuple[tuple[Any, Callable[..., EdgeState | None]], ...] = (
        (UndividedContext, _change_context),
        (WeightedEdges, _weight),
        (EdgeWeights, _weight),
        (EdgeExponentials, _weight),
        (TargetSums, _change_sums),
        (EdgeRows, _change_rows),
    )

    def _meet(self, weighted: WeightedEdges, context: EdgeSum, result: Tensor) -> None:
        """Report the map of weighted edges that are added up at nodes, or note a gap."""
        source = find_source(weighted, context.indices)
        if source is None or not gives_rows(weighted, context.rows):
            if weighted.is_sure:
                self._gaps.add(weighted.site, UNCLEAR)
            return
        weights = weights_by_head(weighted.weights)
        too_large = describe_size(weights.shape[1], context.targets, source.nodes)
        if too_large is not None:
            self._gaps.add(weighted.site, too_large)
            return
        streams = _name_streams(weighted, context, source)
        edges = map_of_edges(weights, source, context)
        left, right = StreamSide(streams[0], -2), StreamSide(streams[1], -1)
        pair = StreamPair(left, right, True)
        if origin_of(result).stream is not None:
            set_origin(result, stream_origin(streams[0], -result.dim()))
        self._facts.count_graph()
        batch, self._sites.batch = self._sites.batch, 1
        try:
            self._report(ManualWeights(edges, edges, pair, site=weighted.site), None)
        finally:
            self._sites.batch = batch


def _name_streams(weighted: WeightedEdges, context: EdgeSum, source: EdgeEnd) -> tuple[str, str]:
    """The streams of targets and sources."""
    keys = source.stream or _NODES
    is_same_count = context.targets == source.nodes
    ends: Ends = (*weighted.value_ends, *weighted.weight_ends)
    known = (end.stream for end in ends if are_same(end.indices, context.indices))
    queries = next((stream for stream in known if stream is not None), None)
    if is_same_count and (queries is None or source.stream is None):
        return keys, keys
    return queries or f"{keys} targets", keys
