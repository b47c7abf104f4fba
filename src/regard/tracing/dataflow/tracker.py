"""Follows every tensor of a run, and reports attention that was written by hand."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.jit import ScriptModule

from regard.kernels.observe.taps import Tapped
from regard.tracing.dataflow.dtensor_origins import give_origins_to_parts, take_origins_of_parts
from regard.tracing.dataflow.edge_attention import GATHERS, EdgeAttention
from regard.tracing.dataflow.example_facts import ExampleFacts
from regard.tracing.dataflow.gaps import Gaps, opaque_reason, scripted_reason
from regard.tracing.dataflow.origin_layers import OriginLayer
from regard.tracing.dataflow.origins import (
    LOST,
    UNKNOWN,
    ManualWeights,
    Origin,
    StreamNames,
    StreamPair,
    forget_freed_tensors,
    learned_stream,
    origin_of,
    plain_stream,
    set_origin,
    stream_origin,
    tensors_in,
)
from regard.tracing.dataflow.position_mixing import PositionMixing
from regard.tracing.dataflow.propagation import (
    PROPAGATION,
    Args,
    Kwargs,
    linear,
    other,
    set_all,
)
from regard.tracing.dataflow.rearrangement import REARRANGEMENT, recur
from regard.tracing.dataflow.rule_cache import joined_origin
from regard.tracing.dataflow.rule_table import Rule
from regard.tracing.dataflow.stream_starts import StreamStarts
from regard.tracing.dataflow.weighted_sums import WeightedSums
from regard.tracing.dataflow.writing import note_output
from regard.tracing.sites import ModelInputs, Sites
from regard.types import Gap

ValuesOnAxis = tuple[Tensor, int]  # the values of a product, and the axis of their keys
Report = Callable[[ManualWeights, ValuesOnAxis | None], None]


class OriginTracker:
    """Writes origins on the results of torch functions, reports manual attention, names gaps.

    `report` gets the weights of each hand-written call, with its values where they were a factor
    of one product. `grids` are the rows and columns of the patches with which a picture's stream
    began.
    """

    def __init__(self, sites: Sites, report: Report) -> None:
        self.sites, self._report = sites, report
        self._gaps = Gaps()
        self._mixing = PositionMixing(sites, self._gaps, report)
        self._sums = WeightedSums(sites, self._gaps, self._mixing, report)
        self.facts = ExampleFacts()
        self._starts = StreamStarts(sites, self.facts)
        self.grids = self._starts.grids
        self._edges = EdgeAttention(sites, self._gaps, report, self.facts)
        # sites whose queries were first seen as a state of the keys' own stream
        self._unnamed_queries = set[str]()
        self._rules = (
            PROPAGATION
            | REARRANGEMENT
            | self._starts.rules
            | {
                "iterate": self._iterate,
                "linear": self._linear,
                "recur": self._recur,
                "join": self._join,
                "assign": self._assign,
                "merge": self.facts.merge,
                "split": self.facts.split,
                "opaque": self._opaque,
            }
            | self._sums.rules
            | self._mixing.rules
        )
        sites.on_begin.append(self._begin)
        sites.on_script.append(self._note_script)
        self.layer = OriginLayer()
        self._is_distributed = dist.is_available() and dist.is_initialized()
        sites.on_close.append(self.layer.close)

    @property
    def gaps(self) -> list[Gap]:
        """The sites that attend and cannot be mapped, with reasons."""
        return self._mixing.find_gaps()

    @property
    def dropped_sites(self) -> set[str]:
        """The sites with a gap whose maps show only a part of what they compute."""
        return self._mixing.dropped_sites

    def follow(self, rule: Rule, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Write origins on the result of a function, by its rule."""
        if self._is_distributed or "out" in kwargs:
            self._follow_unusual(rule, args, kwargs, result)
            return
        self._rules[rule[0]](rule[1], args, kwargs, result)
        if self._edges.states or rule[1] in GATHERS:
            self._edges.follow(rule, args, kwargs, result)

    def _follow_unusual(self, rule: Rule, args: Args, kwargs: Kwargs, result: Any) -> None:
        """`follow` where tensors have parts in other processes, or the caller gives the result."""
        if self._is_distributed:
            take_origins_of_parts((*args, *kwargs.values()))
        if "out" in kwargs:  # where the result was written to; it is no operand
            kwargs = {name: value for name, value in kwargs.items() if name != "out"}
            self._rules[rule[0]](rule[1], args, kwargs, result)
            note_output(result)
        else:
            self._rules[rule[0]](rule[1], args, kwargs, result)
        if rule[1] in GATHERS or self._edges.states:
            self._edges.follow(rule, args, kwargs, result)
        if self._is_distributed:
            give_origins_to_parts((result,))

    def _begin(self, inputs: ModelInputs) -> None:
        """Begin a stream with each floating-point input; ids begin theirs when embedded."""
        forget_freed_tensors()
        self.facts.begin(inputs, self.sites.batch)
        self._sums.begin_model_call()
        self._edges.states.clear()
        with self.layer.active(inputs.values()):
            self._starts.begin(inputs)

    def _iterate(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A loop over a tensor: the parts that a copy of its iterator gives."""
        REARRANGEMENT["layout"]("unbind", args, kwargs, tuple(copy.copy(result)))

    def _linear(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """F.linear with parameters is a linear map; with a tensor of a stream, a product."""
        weight = args[1] if len(args) > 1 else None
        # the exact type first, because isinstance(weight, Parameter) is slow
        if type(weight) is nn.Parameter or origin_of(weight).stream is None:
            linear(name, args, kwargs, result)
        else:
            self._sums.multiply(name, args, kwargs, result)

    def _join(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Tensors concatenated: perhaps the features of single pictures, or pictures with text."""
        parts = args[0] if args else kwargs.get("tensors", ())
        origin = None if self.facts.has_parts else joined_origin(parts)
        if origin is not None and origin.layout != "input":
            set_origin(result, origin)
            return
        self._mixing.note_loop(parts[-1])
        self.facts.join(name, args, kwargs, result)

    def _assign(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Writing into a tensor: perhaps features of pictures into the places of a text."""
        if name == "__setitem__":
            self._mixing.note_loop(args[-1])
        self.facts.assign(name, args, kwargs, result)

    def _recur(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A recurrent network; where tokens come before examples, it says what the batch is."""
        recur(name, args, kwargs, result)
        first = origin_of(result[0]) if isinstance(result, tuple) else UNKNOWN
        if first.axis == -3 and len(args[0]) == self.sites.batch:
            self.sites.batch = args[0].shape[1]

    def stream_names(self, site: str, pair: StreamPair, sizes: tuple[int, int]) -> StreamNames:
        """The streams of the queries and keys of a call; `sizes` are their numbers.

        A state of the keys' stream is no token of it, pooled tokens are another stream, and
        learned queries begin one.
        """
        left, right = pair.left, pair.right
        queries, keys = plain_stream(left.stream), plain_stream(right.stream)
        if left.layout == "state" and (queries == keys or site in self._unnamed_queries):
            self._unnamed_queries.add(site)
            return None, keys
        if queries is not None and queries == keys and sizes[1] < sizes[0]:
            return queries, f"{keys} pooled"
        if left.layout == "constant" and queries is None and keys is not None:
            return learned_stream(site), keys
        return queries, keys

    def name_streams(self, tapped: Tapped, operands: Args) -> Tapped:
        """A call of a tapped function, with the streams of its operands on its query and key."""
        query, key = (
            origin
            if (origin := origin_of(side)).stream is not None
            else _origin_behind(side, operands)
            for side in (tapped.query, tapped.key)
        )
        sizes = (tapped.query.shape[2], tapped.key.shape[2])
        streams = (query.stream, key.stream)
        if query.layout in ("state", "constant") or (
            streams[0] == streams[1] and sizes[1] < sizes[0]
        ):
            pair = StreamPair(query.side, key.side)
            streams = self.stream_names(self.sites.here, pair, sizes)
        if streams == (origin_of(tapped.query).stream, origin_of(tapped.key).stream):
            return tapped
        # views, so that the origins of the model's own tensors stay
        sides = (tapped.query.view_as(tapped.query), tapped.key.view_as(tapped.key))
        for side, stream in zip(sides, streams, strict=True):
            set_origin(side, stream_origin(stream, -2))
        return replace(tapped, query=sides[0], key=sides[1])

    def note_gap(self, reason: str, site: str | None = None) -> None:
        """A site, that which runs now if none is given, attends and cannot be mapped: a gap."""
        self._gaps.add(site or self.sites.here, reason)

    def follow_tapped(self, tapped: Tapped, result: Any) -> None:
        """Write origins on the result of a tapped function: vectors of the queries' stream."""
        set_all(result, stream_origin(origin_of(tapped.query).stream, -2))

    @contextmanager
    def tokens_first(self, sides: Sequence[Tensor]) -> Iterator[None]:
        """Queries, keys and values whose tokens are on their first axis while the block runs.

        Torch's own multi-head attention says so, also where tokens were rearranged before.
        """
        with self.layer.active(sides):
            before = {id(side): (side, origin_of(side)) for side in sides}
            moved = [pair for pair in before.values() if pair[1].axis == LOST and not pair[1].pair]
            for side, origin in moved:
                axis = -3 if side.dim() == 3 else -2
                set_origin(side, stream_origin(origin.stream, axis))
        try:
            yield
        finally:
            with self.layer.active(sides):
                for side, origin in moved:
                    set_origin(side, origin)

    def follow_multi_head(self, query: Tensor, context: Tensor) -> None:
        """Write the origin of the result of torch's own multi-head attention: tokens come first."""
        with self.layer.active((query, context)):
            stream = origin_of(context).stream or origin_of(query).stream
            set_origin(context, stream_origin(stream, -3 if context.dim() == 3 else -2))

    def _opaque(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A custom operation: a gap if it combines two streams, because it may attend."""
        origins = [origin_of(tensor) for tensor in tensors_in((*args, *kwargs.values()))]
        if sum(origin.stream is not None for origin in origins) > 1:
            self._gaps.add(self.sites.here, opaque_reason(name))
        other(name, args, kwargs, result)

    def _note_script(self, site: str, module: ScriptModule, inputs: Args, output: Any) -> None:
        """A scripted module has run: a gap if its graph attends."""
        reason = scripted_reason(module)
        if reason is not None:
            self._gaps.add(site, reason)
        with self.layer.active(tensors_in((*inputs, output))):
            other("", inputs, {}, output)


def _origin_behind(side: Tensor, operands: Args) -> Origin:
    """The origin of the operand of which a query or key is a view."""
    for operand in tensors_in(operands):
        if operand.data_ptr() == side.data_ptr() and origin_of(operand) is not UNKNOWN:
            return origin_of(operand)
    return UNKNOWN
