"""Follows every tensor of a run, and reports attention that was written by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule

from regard.kernels.observe.taps import Tapped
from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.gaps import REARRANGED, Gaps, opaque_reason, scripted_reason
from regard.tracing.dataflow.origin_layers import OriginLayer
from regard.tracing.dataflow.origins import (
    UNKNOWN,
    ManualWeights,
    Origin,
    StreamNames,
    StreamPair,
    StreamSide,
    WeightedValues,
    forget_freed_tensors,
    origin_of,
    set_origin,
    stream_origin,
    tensors_in,
)
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
    pool,
    reduce,
    reduced_axes,
    set_all,
)
from regard.tracing.dataflow.rearrangement import REARRANGEMENT, recur
from regard.tracing.dataflow.rule_table import Rule
from regard.tracing.dataflow.sampling import (
    MAX_NUMBERS,
    TOO_LARGE,
    UNCLEAR,
    Sampling,
    count_numbers,
    fits,
    gives_context,
    map_of_cells,
    read_sampling,
)
from regard.tracing.readable import UNREADABLE, are_readable
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
        self.grids: dict[str, tuple[int, int]] = {}
        self._last_reported: ManualWeights | None = None
        self._samplings = list[Sampling]()  # of the running module, not yet weighted
        # sites whose queries were first seen as a state of the keys' own stream
        self._unnamed_queries = set[str]()
        self._rules = (
            PROPAGATION
            | REARRANGEMENT
            | {
                "embed": self._embed,
                "conv": self._conv,
                "pool": self._pool,
                "linear": self._linear,
                "recur": self._recur,
                "sample": self._sample,
                "product": self._product,
                "reduce": self._reduce,
                "opaque": self._opaque,
            }
        )
        sites.on_begin.append(self._begin)
        sites.on_script.append(self._note_script)
        self.layer = OriginLayer()
        sites.on_close.append(self.layer.close)

    @property
    def gaps(self) -> list[Gap]:
        """The sites that attend and cannot be mapped, with reasons."""
        return self._gaps.found

    def follow(self, rule: Rule, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Write origins on the result of a function, by its rule."""
        self._rules[rule[0]](rule[1], args, kwargs, result)

    def _begin(self, inputs: ModelInputs) -> None:
        """Begin a stream with each floating-point input; ids begin theirs when embedded."""
        forget_freed_tensors()
        with self.layer.active(inputs.values()):
            for name, tensor in inputs.items():
                is_new = origin_of(tensor) is UNKNOWN
                if tensor.dtype.is_floating_point and tensor.dim() > 2 and is_new:
                    axis = -2 if tensor.dim() == 3 else None
                    set_origin(tensor, stream_origin(name, axis, "input"))

    def _embed(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """Begin the stream of the module that embeds; one id for each example is a state."""
        ids = args[0] if args else kwargs["input"]
        single = ids.dim() == 0 or (ids.dim() == 1 and len(ids) == self.sites.batch)
        stream = self.sites.caller
        set_origin(
            result, stream_origin(stream, None, "state") if single else stream_origin(stream, -2)
        )

    def _conv(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """Begin the stream of a picture or a sound, or keep the one that the input has."""
        origin = origin_of(args[0])
        if origin.pair is not None:
            pool(name, args, kwargs, result)
            return
        begins = origin.stream is None or origin.layout == "input"
        stream = self.sites.caller if begins else origin.stream
        if name == "conv1d":
            set_origin(result, stream_origin(stream, -1))
        elif name == "conv2d":
            is_picture = begins or origin.layout == "picture"
            set_origin(result, stream_origin(stream, -1, "picture" if is_picture else "grid"))
            self._note_grid(origin_of(result), result)
        else:
            set_origin(result, stream_origin(stream))

    def _pool(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Pool, and note the new size of a picture's grid."""
        pool(name, args, kwargs, result)
        if isinstance(result, Tensor) and result.dim() > 2:
            self._note_grid(origin_of(result), result)

    def _note_grid(self, origin: Origin, result: Tensor) -> None:
        if origin.layout == "picture" and origin.stream is not None:
            self.grids[origin.stream] = (result.shape[-2], result.shape[-1])

    def _linear(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """F.linear with parameters is a linear map; with a tensor of a stream, a product."""
        weight = args[1] if len(args) > 1 else None
        # the exact type first, because isinstance(weight, Parameter) is slow
        if type(weight) is nn.Parameter or origin_of(weight).stream is None:
            linear(name, args, kwargs, result)
        else:
            self._product(name, args, kwargs, result)

    def _recur(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A recurrent network; where tokens come before examples, it says what the batch is."""
        recur(name, args, kwargs, result)
        first = origin_of(result[0]) if isinstance(result, tuple) else UNKNOWN
        if first.axis == -3 and len(args[0]) == self.sites.batch:
            self.sites.batch = args[0].shape[1]

    def _product(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """A product: weights times values if one factor is weights, else scores or a map."""
        product = product_of(name, (*args, *kwargs.values()))
        if product is None:
            other(name, args, kwargs, result)
            return
        origin = self._context_origin(product) or product_origin(product)
        if origin is not UNKNOWN:
            set_origin(result, origin)

    def _context_origin(self, product: Product) -> Origin | None:
        """The origin of the context if a product is of weights and values; None otherwise."""
        for operand, values, own, theirs in product.both_ways:
            origin = origin_of(operand)
            if isinstance(origin.stage, ManualWeights) and len(own.summed) == 1:
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
            axes, _ = reduced_axes(source, args, kwargs)
            weights = Origin(origin.stream, origin.axis, origin.layout, origin.pair, stage.weights)
            if len(axes) == 1 and not self._meet_samples(stage, source, result):
                self._meet_values(weights, stage.values, (axes[0], axes[0]))
        reduce(name, args, kwargs, result)

    def _sample(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Values read at points of a picture: remembered until weights of the points meet them."""
        other(name, args, kwargs, result)
        site = self.sites.here
        if self._samplings and self._samplings[-1].site != site:
            self._samplings.clear()
        if name == "grid_sample" and not is_backward():
            sampling = read_sampling(
                site, origin_of(args[0] if args else None).stream, args, kwargs
            )
            self._samplings += [] if sampling is None else [sampling]

    def _meet_samples(self, stage: WeightedValues, weighted: Tensor, context: Any) -> bool:
        """Report deformable attention if weighted samples are summed; True if they are samples."""
        samplings, site = self._samplings, self.sites.here
        if not samplings or samplings[-1].site != site:
            return False
        if not fits(samplings, stage.factor, weighted):
            return False
        if not are_readable((stage.factor, context)):
            self.note_gap(UNREADABLE)
        elif count_numbers(samplings) > MAX_NUMBERS:
            self._gaps.add(site, TOO_LARGE)
        else:
            cells = map_of_cells(samplings, stage.factor)
            if gives_context(samplings, cells, context):
                self._report(self._cells_as_weights(cells, stage.weights.pair.left.stream), None)
            else:
                self._gaps.add(site, UNCLEAR)
        self._samplings = []
        return True

    def _cells_as_weights(self, cells: Tensor, queries: str | None) -> ManualWeights:
        """A map of cells as weights; the cells of several levels are a stream of their own."""
        keys = self._samplings[0].stream
        if keys is not None and len(self._samplings) > 1:
            keys = f"{keys} levels"  # no single grid of rows and columns holds them
        _, count, columns = cells.shape
        left = StreamSide(keys if count == columns else queries, -2)
        batch = self.sites.batch
        rows = batch if batch and len(cells) % batch == 0 else len(cells)
        weights = cells.unflatten(0, (rows, -1))
        return ManualWeights(weights, weights, StreamPair(left, StreamSide(keys, -1), True))

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
        if weights.is_rearranged:
            if values_origin.layout != "constant":
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
            return stream_origin(_learned_stream(self.sites.here), left.axis)
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
            return _learned_stream(site), keys
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

    def note_gap(self, reason: str) -> None:
        """A function that attends runs now and cannot be mapped: a gap."""
        self._gaps.add(self.sites.here, reason)

    def follow_tapped(self, tapped: Tapped, result: Any) -> None:
        """Write origins on the result of a tapped function: vectors of the queries' stream."""
        set_all(result, stream_origin(origin_of(tapped.query).stream, -2))

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


def _learned_stream(site: str) -> str:
    """The name of the stream that begins with queries that are parameters."""
    return f"{site} query"


def _origin_behind(side: Tensor, operands: Args) -> Origin:
    """The origin of the operand of which a query or key is a view."""
    for operand in tensors_in(operands):
        if operand.data_ptr() == side.data_ptr() and origin_of(operand) is not UNKNOWN:
            return origin_of(operand)
    return UNKNOWN
