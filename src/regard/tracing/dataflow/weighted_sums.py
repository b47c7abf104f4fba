"""Where weights meet values: products, sums of products and the like that give a context.

Weights are known since their softmax (`softmax.py`). A call is reported when they are used:

    w @ v, einsum(w, v)         a product that sums over the axis of the keys
    (w[..., None] * v).sum(-2)  the same, written elementwise; a mean too
    vecdot(w, v.mT)             vectors compared, each with each
    scatter_add(dim, ids, w)    weights added up by an index, as a pointer copies its tokens

`WeightedSums` has the rules of these functions.
"""

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.tracing.dataflow.axis_moves import axis_without, from_end
from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.gaps import REARRANGED, Gaps
from regard.tracing.dataflow.mixing import NEIGHBOURS, are_neighbours, weights_are_features
from regard.tracing.dataflow.origins import (
    CONSTANT,
    UNKNOWN,
    ManualWeights,
    Origin,
    TokenProducts,
    WeightedValues,
    changed_weights,
    learned_stream,
    origin_of,
    set_origin,
    stream_origin,
)
from regard.tracing.dataflow.placed_weights import RearrangedAttention
from regard.tracing.dataflow.position_mixing import PositionMixing, ReportWeights
from regard.tracing.dataflow.products import (
    Product,
    joint_products,
    product_of,
    product_origin,
    weights_meet_values,
)
from regard.tracing.dataflow.propagation import (
    Args,
    Kwargs,
    compared_origin,
    other,
    reduce,
    reduced_axes,
    set_all,
    without_axis,
)
from regard.tracing.dataflow.rule_cache import MATMULS, product_with_parameters
from regard.tracing.dataflow.sampled_values import SampledValues
from regard.tracing.dataflow.unnormalised import scores_as_weights
from regard.tracing.sites import Sites


class WeightedSums:
    """Reports weights that meet values, and follows products of other tensors.

    `report` gets the weights, with their values where they were a factor of one product.
    """

    def __init__(
        self, sites: Sites, gaps: Gaps, mixing: PositionMixing, report: ReportWeights
    ) -> None:
        self._sites, self._gaps, self._mixing, self._report = sites, gaps, mixing, report
        self._last_reported: ManualWeights | None = None
        # the scores of all weights that were reported, by their identity
        self._reported: dict[int, weakref.ref[Tensor]] = {}
        self._samples = SampledValues(sites, gaps, report)
        self._rearranged = RearrangedAttention(sites, gaps, report)
        self.rules: dict[str, Callable[[str, Args, Kwargs, Any], None]] = {
            "product": self.multiply,
            "reduce": self._reduce,
            "compare": self._compare,
            "scatter_weights": self._scatter_weights,
            "sample": self._samples.note,
        }

    def begin_model_call(self) -> None:
        """Let what comes next begin new maps."""
        self._rearranged.begin_model_call()

    def multiply(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
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
            self._follow_joint_product(name, args, kwargs, result)
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

    def _follow_joint_product(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """An einsum of more than two tensors: a gap if it sums over tokens without any weights."""
        origins = [self._context_origin(product) for product in joint_products(args)]
        context = next((origin for origin in origins if origin is not None), None)
        if context is not None:
            set_all(result, context)
            return
        if name == "einsum":
            self._mixing.note_joint_sums(joint_products(args))
        other(name, args, kwargs, result)

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
        if (
            name in ("sum", "mean")
            and isinstance(stage, WeightedValues)
            and isinstance(source, Tensor)
        ):
            axes, keepdim = reduced_axes(source, args, kwargs)
            is_pooling = name == "mean" and axes != (origin.pair and origin.pair.right.axis,)
            if (
                len(axes) == 1
                and not is_pooling
                and not self._samples.meet_weights(stage, source, result)
            ):
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

    def _compare(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Vectors on one axis compared, each with each; weights and values give a context."""
        origin, axis = compared_origin(name, args, kwargs, result)
        if isinstance(origin.stage, WeightedValues):
            origin = self._meet_weighted(origin, origin.stage, axis) or origin
        if origin is not UNKNOWN:
            set_all(result, without_axis(origin, axis, keepdim=bool(kwargs.get("keepdim"))))

    def _scatter_weights(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Numbers added up by an index: weights of tokens are, where a pointer copies them."""
        values = dict(zip(("input", "dim", "index", "src"), args, strict=False)) | kwargs
        source = values["src"]
        origin, weights = origin_of(source), origin_of(source).weights_over_keys
        if weights is None or origin.pair is None:
            other(name, args, kwargs, result)
            return
        if origin.pair.right.axis == from_end(values["dim"], source.dim()):
            # the weights of a pointer-generator, gated by the share that is copied, have given a
            # context before (See et al. 2017, eq. 3 and 9); those of a plain pointer have not
            given = weights.is_changed or self._is_reported(weights)
            if not given and not is_backward():
                self._note_report(weights)
                self._report(weights, None)
            left = origin.pair.left
            set_all(result, stream_origin(left.stream, left.axis, left.layout))

    def _note_report(self, weights: ManualWeights) -> None:
        """Remember that these weights were reported."""
        self._last_reported = weights
        key, forget = id(weights.scores), self._reported.pop
        self._reported[key] = weakref.ref(weights.scores, lambda _: forget(key, None))

    def _is_reported(self, weights: ManualWeights) -> bool:
        """True if weights of the same scores were reported before."""
        known = self._reported.get(id(weights.scores))
        return known is not None and known() is weights.scores

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
            self._gaps.add(self._sites.here, NEIGHBOURS)
            return stream_origin(origin.pair.left.stream)
        if weights.is_rearranged:
            # learned values count if queries met keys; an expected embedding has no keys
            if values_origin.layout != "constant" or origin.pair.is_product:
                self._gaps.add(self._sites.here, REARRANGED)
            return stream_origin(origin.pair.left.stream)
        # a product of two streams may have been normalised over either of them
        swaps = origin.pair.is_product and origin.pair.left.axis == summed[0]
        pair = origin.pair.swapped if swaps else origin.pair
        if not weights_meet_values(pair, values_origin, summed):
            return None
        if weights is not self._last_reported and not is_backward():
            self._note_report(weights)
            ordered = replace(weights, pair=weights.pair.swapped) if swaps else weights
            self._report(ordered, None if values is None else (values, summed[1]))
        left = pair.left
        if left.stream is None and left.layout == "constant":
            return stream_origin(learned_stream(self._sites.here), left.axis)
        return stream_origin(left.stream, left.axis, left.layout)
