"""Rules for tokens that are mixed by anything else than a softmax: maps where weights are computed.

Of every product of two tensors that depend on the model's input, `PositionMixing` asks in turn:

1. Is a factor scores of two streams, and the other one values on the axis of the keys? Then the
   scores are weights (`unnormalised.py`), and the call is reported.
2. Is a factor exponentials of such scores? Then the call is reported when they are divided by their
   sum, and is a gap if they never are.
3. Were both factors picked at positions? Then they may be part of a loop (`recurrence.py`).
4. Are tokens summed over? Then no weights exist, and the site is a gap (`mixing.py`).

Where a site computes a part of its context by weights and the rest by a state, as retention in
chunks does, the part is no map of the whole: `dropped_sites` are left out of the trace.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.gaps import Gaps
from regard.tracing.dataflow.mixing import (
    FOURIER,
    NEIGHBOURS,
    NUMPY,
    SPARSE,
    SUMMED,
    are_neighbours,
    sums_positions,
    transforms_tokens,
)
from regard.tracing.dataflow.origins import (
    Exponentials,
    ManualWeights,
    Origin,
    PickedTokens,
    TokenProducts,
    WeightedByExponentials,
    origin_of,
    stream_origin,
)
from regard.tracing.dataflow.products import Factor, Product
from regard.tracing.dataflow.propagation import (
    Args,
    Kwargs,
    first_origin,
    other,
    set_all,
)
from regard.tracing.dataflow.rearrangement import rearrange, stack
from regard.tracing.dataflow.recurrence import RECURRENCE, is_recurrent, join_picked
from regard.tracing.dataflow.unnormalised import BLOCKS, divide_by_sum, scores_as_weights
from regard.tracing.sites import Sites
from regard.types import Gap

ReportWeights = Callable[[ManualWeights, tuple[Tensor, int] | None], None]


class PositionMixing:
    """Reports weights that are no softmax, and adds gaps where tokens are mixed without weights.

    `rules` are those of the functions that only matter here; `report` gets weights and values.
    """

    def __init__(self, sites: Sites, gaps: Gaps, report: ReportWeights) -> None:
        self._sites, self._gaps, self._report = sites, gaps, report
        self._unnormalised = set[str]()  # sites whose maps are no softmax
        self._undivided: dict[Exponentials, str] = {}  # met values, not divided yet: their sites
        self._left_torch: tuple[str, int] = ("", 0)  # a site, and how many of its tensors left
        self.rules: dict[str, Callable[[str, Args, Kwargs, Any], None]] = {
            "stack": self._stack,
            "cumulate": self._cumulate,
            "fourier": self._transform,
            "leave_torch": self._leave_torch,
            "sparse": self._note_sparse,
        }

    def find_gaps(self) -> list[Gap]:
        """The gaps of all sites, with those of exponentials that were never divided."""
        for site in self._undivided.values():
            self._gaps.add(site, BLOCKS)
        return self._gaps.found

    @property
    def dropped_sites(self) -> set[str]:
        """The sites whose weights are only a part of what they compute."""
        return self._unnormalised & {gap.site for gap in self.find_gaps()}

    def follow_product(self, product: Product) -> Origin | None:
        """The origin of a product that mixes tokens without a softmax; None for any other one."""
        left, right = origin_of(product.left), origin_of(product.right)
        if "constant" in (left.layout, right.layout) or is_backward():
            return None
        for operand, values, own, theirs in product.both_ways:
            origin = origin_of(operand)
            if origin.pair is not None and len(own.summed) == 1:
                found = self._use_as_weights(origin, operand, values, (own, theirs))
                if found is not None:
                    return found
        if isinstance(left.stage, PickedTokens) or isinstance(right.stage, PickedTokens):
            return join_picked(left, right, multiplies=True)
        if sums_positions(product):
            self._gaps.add(self._sites.here, SUMMED)
            return stream_origin(left.stream)
        shared = left.axis and product.sides[0].move(left.axis)
        if shared and right.axis and product.sides[1].move(right.axis) == shared:
            if are_neighbours(left, right):
                self._gaps.add(self._sites.here, NEIGHBOURS)
                return stream_origin(left.stream)
            return _outer_origin(left, shared, product)
        return None

    def _use_as_weights(
        self, origin: Origin, operand: Tensor, values: Tensor, factors: tuple[Factor, Factor]
    ) -> Origin | None:
        """The origin of values summed by scores, or by exponentials of them; None otherwise."""
        own, theirs = factors
        stage = origin.stage
        if stage is not None and not isinstance(stage, Exponentials):
            return None
        summed = (own.summed[0], theirs.summed[0])
        weighted = scores_as_weights(origin, operand, origin_of(values), summed)
        if weighted is None or weighted.pair is None:
            return None
        assert isinstance(weighted.stage, ManualWeights)
        left = weighted.pair.left
        context = stream_origin(left.stream, left.axis, left.layout).move_axes(own.move)
        if stage is None:
            self.report(weighted.stage, (values, summed[1]))
            return context
        return self._await_sum(weighted.stage, stage, (values, summed[1]), context)

    def report(self, weights: ManualWeights, values: tuple[Tensor, int] | None) -> None:
        """Report weights that are no softmax."""
        self._unnormalised.add(self._sites.here)
        self._report(weights, values)

    def _await_sum(
        self,
        weights: ManualWeights,
        exponentials: Exponentials,
        values: tuple[Tensor, int],
        context: Origin,
    ) -> Origin:
        """The origin of values summed by exponentials, reported as soon as these are divided."""
        site = self._sites.here

        def normalise() -> None:
            if self._undivided.pop(exponentials, None) is not None:
                self._report(divide_by_sum(weights, exponentials), values)

        self._undivided[exponentials] = site
        stage = WeightedByExponentials(exponentials, normalise)
        return Origin(context.stream, context.axis, context.layout, None, stage)

    def note_loop(self, value: Any) -> None:
        """A vector becomes a token again: a gap if it carries a state through a loop."""
        if is_recurrent(value):
            self._gaps.add(self._sites.here, RECURRENCE)

    def _stack(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Tensors on a new axis; a loop over positions may end here."""
        parts = args[0] if args else kwargs.get("tensors", ())
        self.note_loop(parts[-1])
        stack(name, args, kwargs, result)

    def _cumulate(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Sums up to each position; of products of tokens, they are states of linear attention."""
        source = args[0] if args else kwargs.get("input")
        if isinstance(origin_of(source).stage, TokenProducts):
            self.note_summed_products()
        rearrange(name, args, kwargs, result)

    def note_summed_products(self, reason: str = SUMMED) -> None:
        """Products of tokens are summed over positions: a gap."""
        if not is_backward():
            self._gaps.add(self._sites.here, reason)

    def note_joint_sums(self, products: Iterable[Product]) -> None:
        """More than two tensors are multiplied in one function: a gap if it sums over tokens."""
        if any(sums_positions(product) for product in products):
            self.note_summed_products()

    def _note_sparse(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Sparse tensors: a gap if they are weights, or depend on the model's input."""
        depends = origin_of(args[0]).stream is not None
        if ("softmax" in name or depends) and not is_backward():
            self._gaps.add(self._sites.here, SPARSE)
        other(name, args, kwargs, result)

    def _transform(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A Fourier transform; over tokens, a gap."""
        if transforms_tokens(name, args, kwargs):
            self._gaps.add(self._sites.here, FOURIER)
        origin = first_origin(args, kwargs)
        if origin is not None:
            set_all(result, origin.without_pair())  # complex numbers, on the same axes

    def _leave_torch(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Numbers go to numpy: a gap where scores do, or two tensors of tokens."""
        origin, site = origin_of(args[0]), self._sites.here
        if origin.stream is None or not (origin.axis or origin.pair) or not self._sites.is_inside:
            return
        count = self._left_torch[1] + 1 if self._left_torch[0] == site else 1
        self._left_torch = (site, count)
        if count > 1 or origin.pair is not None:
            self._gaps.add(site, NUMPY)


def _outer_origin(left: Origin, axis: int, product: Product) -> Origin | None:
    """The origin of an outer product of two vectors of each token; None for other products."""
    if any(factor.summed or not factor.owns for factor in product.sides):
        return None
    return Origin(left.stream, axis, left.layout, None, TokenProducts())
