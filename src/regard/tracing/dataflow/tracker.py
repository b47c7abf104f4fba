"""Follows every tensor of a run, and reports attention that was written by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.jit import ScriptModule

from regard.kernels.observe.taps import Tapped
from regard.tracing.dataflow.axis_moves import axis_without
from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.dtensor_origins import give_origins_to_parts, take_origins_of_parts
from regard.tracing.dataflow.edge_attention import GATHERS, EdgeAttention
from regard.tracing.dataflow.example_facts import ExampleFacts
from regard.tracing.dataflow.gaps import REARRANGED, Gaps, opaque_reason, scripted_reason
from regard.tracing.dataflow.mixing import NEIGHBOURS, are_neighbours, weights_are_features
from regard.tracing.dataflow.origin_layers import OriginLayer
from regard.tracing.dataflow.origins import (
    CONSTANT,
    UNKNOWN,
    ManualWeights,
    Origin,
    StreamNames,
    StreamPair,
    TokenProducts,
    WeightedValues,
    changed_weights,
    forget_freed_tensors,
    learned_stream,
    origin_of,
    set_origin,
    stream_origin,
    tensors_in,
)
from regard.tracing.dataflow.placed_weights import RearrangedAttention
from regard.tracing.dataflow.position_mixing import PositionMixing
from regard.tracing.dataflow.products import (
    Product,
    product_of,
    product_origin,
    weights_meet_values,
)
from regard.tracing.dataflow.propagation import (
    PROPAGATION,
    Args,
    Kwargs,
    linear,
    other,
    reduce,
    reduced_axes,
    set_all,
)
from regard.tracing.dataflow.rearrangement import REARRANGEMENT, recur
from regard.tracing.dataflow.rule_cache import MATMULS, joined_origin, product_with_parameters
from regard.tracing.dataflow.rule_table import Rule
from regard.tracing.dataflow.sampled_values import SampledValues
from regard.tracing.dataflow.stream_starts import StreamStarts
from regard.tracing.dataflow.unnormalised import scores_as_weights
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
        self.facts = ExampleFacts()
        self._starts = StreamStarts(sites, self.facts)
        self.grids = self._starts.grids
        self._last_reported: ManualWeights | None = None
        self._samples = SampledValues(sites, self._gaps, report)
        self._rearranged = RearrangedAttention(sites, self._gaps, report)
        self._edges = EdgeAttention(sites, self._gaps, report, self.facts)
        # sites whose queries were first seen as a state of the keys' own stream
        self._unnamed_queries = set[str]()
        self._rules = (
            PROPAGATION
            | REARRANGEMENT
            | self._starts.rules
            | {
                "linear": self._linear,
                "recur": self._recur,
                "sample": self._samples.note,
                "product": self._product,
                "reduce": self._reduce,
                "join": self._join,
                "assign": self._assign,
                "merge": self.facts.merge,
                "split": self.facts.split,
                "opaque": self._opaque,
            }
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
        self._rearranged.begin_model_call()
        self._edges.states.clear()
        with self.layer.active(inputs.values()):
            self._starts.begin(inputs)

    def _linear(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """F.linear with parameters is a linear map; with a tensor of a stream, a product."""
        weight = args[1] if len(args) > 1 else None
        # the exact type first, because isinstance(weight, Parameter) is slow
        if type(weight) is nn.Parameter or origin_of(weight).stream is None:
            linear(name, args, kwargs, result)
        else:
            self._product(name, args, kwargs, result)

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

    def _product(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """A product: weights times values if one factor is weights, else scores or a map."""
        if name in MATMULS and type(args[-1]) is nn.Parameter and not kwargs and len(args) > 1:
            shared = getattr(args[-2], "_regard_origin", None)
            is_known = shared is not None and shared.is_shared and not shared.is_parameters
            if is_known and origin_of(args[-1]) is CONSTANT:
                dims = (args[-2].dim(), args[-1].dim())
                set_origin(result, product_with_parameters(shared, dims))
                return
        product = product_of(name, (*args, *kwargs.values()))
        if product is None:
            other(name, args, kwargs, result)
            return
        origin = (
            self._context_origin(product)
            or self._mixing.follow_product(product)
            or product_origin(product)
        )
        if isinstance(origin.stage, ManualWeights):
            origin = changed_weights(origin, result)  # heads that a matrix of parameters has mixed
        if origin is not UNKNOWN:
            set_origin(result, origin)

    def _context_origin(self, product: Product) -> Origin | None:
        """The origin of the context if a product is of weights and values; None otherwise."""
        for operand, values, own, theirs in product.both_ways:
            origin = origin_of(operand)
            if isinstance(origin.stage, ManualWeights) and len(own.summed) == 1:
                if self._rearranged.meet(product, operand, values):
                    return stream_origin(origin.stream)
                if weights_are_features(origin, operand, own):
                    self._mixing.note_summed_products()
                    return stream_origin(origin.stream)
                summed = (own.summed[0], theirs.summed[0])
                found = self._meet_values(origin, origin_of(values), summed, values)
                if found is not None:
                    return found.move_axes(own.move)
        return None

    def _reduce(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A sum; of weights times values, written elementwise, it is the context."""
        source = args[0] if args else kwargs.get("input")
        origin = origin_of(source)
        stage = origin.stage
        if name == "sum" and isinstance(stage, WeightedValues) and isinstance(source, Tensor):
            axes, keepdim = reduced_axes(source, args, kwargs)
            if len(axes) == 1 and not self._samples.meet_weights(stage, source, result):
                context = self._meet_weighted(origin, stage, axes[0])
                if context is not None:
                    removed = () if keepdim else axes
                    set_origin(result, context.move_axes(lambda axis: axis_without(removed, axis)))
                    return
        elif isinstance(stage, TokenProducts) and isinstance(source, Tensor):
            axes, _ = reduced_axes(source, args, kwargs)
            if name == "sum" and origin.layout == "neighbours":
                self._mixing.note_summed_products(NEIGHBOURS)
            elif name == "sum" and axes == (origin.axis,):
                self._mixing.note_summed_products()
        reduce(name, args, kwargs, result)

    def _meet_weighted(self, origin: Origin, stage: WeightedValues, axis: int) -> Origin | None:
        """Report weights that were multiplied with values elementwise, and are summed over keys.

        Returns the origin of the context, before the axis is gone; None if they are no weights.
        """
        if stage.weights is not None:
            if self._rearranged.meet_elementwise(replace(origin, stage=stage.weights), stage, axis):
                return stream_origin(origin.stream)
            weights = Origin(origin.stream, origin.axis, origin.layout, origin.pair, stage.weights)
            met = self._meet_values(weights, stage.values, (axis, axis))
            if met is None and are_neighbours(weights, stage.values):
                self._mixing.note_summed_products(NEIGHBOURS)
            elif met is None and stage.values.side.axis == axis:
                self._mixing.note_summed_products()  # weighted tokens, summed over positions
            return met
        weighted = scores_as_weights(origin, stage.factor, stage.values, (axis, axis))
        if weighted is not None and isinstance(weighted.stage, ManualWeights):
            self._mixing.report(weighted.stage, None)
        return None

    def _meet_values(
        self,
        origin: Origin,
        values_origin: Origin,
        summed: tuple[int, int],
        values: Tensor | None = None,
    ) -> Origin | None:
        """Report weights that meet their values, and return the origin of the context.

        None if the two are not weights and values, summed over an axis of each.
        """
        weights = origin.stage
        assert isinstance(weights, ManualWeights)
        assert origin.pair is not None
        if values_origin.layout == "neighbours":
            self._gaps.add(self.sites.here, NEIGHBOURS)
            return stream_origin(origin.pair.left.stream)
        if weights.is_rearranged:
            # learned values count if queries met keys; an expected embedding has no keys
            if values_origin.layout != "constant" or origin.pair.is_product:
                self._gaps.add(self.sites.here, REARRANGED)
            return stream_origin(origin.pair.left.stream)
        # a product of two streams may have been normalised over either of them
        swaps = origin.pair.is_product and origin.pair.left.axis == summed[0]
        pair = origin.pair.swapped if swaps else origin.pair
        if not weights_meet_values(pair, values_origin, summed):
            return None
        if weights is not self._last_reported and not is_backward():
            self._last_reported = weights
            ordered = replace(weights, pair=weights.pair.swapped) if swaps else weights
            self._report(ordered, None if values is None else (values, summed[1]))
        left = pair.left
        if left.stream is None and left.layout == "constant":
            return stream_origin(learned_stream(self.sites.here), left.axis)
        return stream_origin(left.stream, left.axis, left.layout)

    def stream_names(self, site: str, pair: StreamPair, sizes: tuple[int, int]) -> StreamNames:
        """The streams of the queries and keys of a call; `sizes` are their numbers.

        A state of the keys' stream is no token of it, pooled tokens are another stream, and
        learned queries begin one.
        """
        left, right = pair.left, pair.right
        queries, keys = left.stream, right.stream
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
