"""The product of weights and values in hand-written attention: its axes read, its weights edited.

`run_described` stands in front of every product of a model while a caller edits, or keeps
values, gradients or outputs. If a factor is weights, `read_weighted_sum` finds out which axis is
batch, head, query, key and value dimension, so that edits can be put in and contexts taken out.
"""

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.tracing.dataflow.origins import ManualWeights, origin_of
from regard.tracing.dataflow.output_projection import OutputProjection, PendingProjections
from regard.tracing.dataflow.products import Product, product_of
from regard.tracing.readable import are_readable
from regard.tracing.recording.editor import (
    HeadChange,
    change_context,
    change_weights,
    merge_changes,
)
from regard.tracing.recording.edits import AttentionCall
from regard.tracing.recording.manual_softmax import describe_manual_call
from regard.tracing.recording.observe_call import visible_keys
from regard.tracing.recording.options import WatchOptions
from regard.tracing.recording.record import CallRecord, GradientSlot
from regard.tracing.sites import Sites

Sizes = tuple[int, int, int, int]  # batch, heads, queries, keys


@dataclass(frozen=True)
class ProductAxes:
    """The axes of a product as einsum letters, and what each is in attention.

    `lead` are batch and heads; `query` is empty where there is a single query.
    """

    weights: str
    values: str
    result: str
    lead: str
    query: str
    key: str
    dim: str


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """A product of weights and values whose axes are known.

    `place` is which of the two operands is the weights. Properties and methods convert between the
    layout of the product and the four axes of attention.
    """

    axes: ProductAxes
    sizes: Sizes
    place: int
    operands: tuple[Tensor, Tensor]

    @property
    def weights(self) -> Float[Tensor, "batch head query key"]:
        """The weights as they go into the product, after dropout."""
        axes = self.axes
        order = _axis_order(axes.weights, axes.lead + axes.query + axes.key)
        return self.operands[self.place].permute(order).reshape(self.sizes)

    @property
    def value(self) -> Float[Tensor, "batch key_head key value_dim"]:
        """The values; heads may share them."""
        axes, values = self.axes, self.operands[1 - self.place]
        sizes = dict(zip(axes.weights, self.operands[self.place].shape, strict=True))
        missing = "".join(letter for letter in axes.lead if letter not in axes.values)
        values = values[(...,) + (None,) * len(missing)]
        order = _axis_order(axes.values + missing, axes.lead + axes.key + axes.dim)
        values = values.permute(order)
        batch, heads, _, keys = self.sizes
        if len(axes.lead) == 2:
            return values.expand(batch, *values.shape[1:])
        lead = [sizes[letter] for letter in axes.lead]
        return values.expand(*lead, *values.shape[-2:]).reshape(batch, heads, keys, -1)

    def to_operand(self, weights: Float[Tensor, "batch head query key"]) -> Tensor:
        """Weights with four axes, in the layout of the product's operand."""
        axes, operand = self.axes, self.operands[self.place]
        order = _axis_order(axes.weights, axes.lead + axes.query + axes.key)
        return _undo_order(weights.to(operand), order, operand.shape)

    def to_context(self, result: Tensor) -> Float[Tensor, "batch head query value_dim"]:
        """The product's result with the four axes of a context."""
        axes = self.axes
        order = _axis_order(axes.result, axes.lead + axes.query + axes.dim)
        return result.permute(order).reshape(*self.sizes[:3], -1)

    def to_result(
        self, context: Float[Tensor, "batch head query value_dim"], like: Tensor
    ) -> Float[Tensor, "..."]:
        """A context in the layout of the product's result."""
        axes = self.axes
        order = _axis_order(axes.result, axes.lead + axes.query + axes.dim)
        return _undo_order(context.to(like), order, like.shape)


def read_weighted_sum(product: Product, place: int, weights: Tensor) -> WeightedSum | None:
    """How a product sums values by the weights in one factor; None if its axes are not clear.

    `weights` are the same with four axes. The letters of axes may mislead, as where heads and
    examples changed places, so the numbers are compared.
    """
    axes = _identify_axes(*_letters(product, place))
    if axes is None:
        return None
    batch, heads, queries, keys = weights.shape
    weighted = WeightedSum(
        axes, (batch, heads, queries, keys), place, (product.left, product.right)
    )
    operand = weighted.operands[place]
    if operand.numel() != weights.numel() or not _equal_up_to_dropout(weighted.weights, weights):
        return None
    return weighted


def _letters(product: Product, place: int) -> tuple[str, str, str]:
    """Letters for the axes of the weights, of the values and of the result."""
    factors, count = (product.left, product.right), 0
    names = list[str]()
    for tensor, factor in zip(factors, product.sides, strict=True):
        axes = range(-tensor.dim(), 0)
        # a letter for each axis of the result, a capital for the axis that is summed over
        letters = [
            string.ascii_lowercase[factor.axes[axis]] if axis in factor.axes else "K"
            for axis in axes
        ]
        names.append("".join(letters))
        count = max(count, *(-axis for axis in factor.axes.values()), 0)
    result = "".join(string.ascii_lowercase[axis] for axis in range(-count, 0))
    return names[place], names[1 - place], result


def _identify_axes(weights: str, values: str, result: str) -> ProductAxes | None:
    """What each axis is in attention: the one that is summed over is the key."""
    summed = [axis for axis in weights if axis in values and axis not in result]
    dims = [axis for axis in values if axis not in weights]
    rest = [axis for axis in weights if axis not in summed]
    query = [axis for axis in rest if axis not in values][-1:]
    lead = [axis for axis in rest if axis not in query]
    if len(summed) != 1 or len(dims) != 1 or len(lead) > 2:
        return None
    if {*result} != {*lead, *query, *dims} or len({*weights}) + 1 != len({*weights, *values}):
        return None
    return ProductAxes(weights, values, result, "".join(lead), "".join(query), summed[0], dims[0])


def _equal_up_to_dropout(operand: Tensor, weights: Tensor) -> bool:
    """True if both are the same weights, apart from dropped ones and the factor of dropout."""
    kept = weights.to(operand) * (operand != 0)
    factor = operand.sum() / kept.sum().clamp_min(1e-30)
    return torch.allclose(operand, kept * factor, rtol=2e-2, atol=1e-4)


def _axis_order(letters: str, order: str) -> list[int]:
    return [letters.index(letter) for letter in order]


def _undo_order(whole: Tensor, order: list[int], sizes: torch.Size) -> Tensor:
    """A tensor whose axes were put in this order and merged, back in its layout of these sizes."""
    inverse = [order.index(axis) for axis in range(len(order))]
    return whole.reshape([sizes[axis] for axis in order]).permute(inverse)


@dataclass(frozen=True, eq=False)
class RecentProduct:
    """A product of weights and values that has run: how it was changed, and what is kept of it."""

    manual: ManualWeights
    changes: list[HeadChange]
    weighted: WeightedSum | None
    gradient_slot: GradientSlot | None = None
    projection: OutputProjection | None = None


class ManualProducts:
    """Runs the products of a model, with edited weights where a caller edits them.

    `is_idle` is True if the caller neither edits nor keeps more than weights; products then run
    without it.
    """

    def __init__(self, sites: Sites, options: WatchOptions) -> None:
        self.sites, self.options = sites, options
        keep = options.keep
        self.is_idle = not (options.editor or keep.values or keep.gradients or keep.outputs)
        self.projections = PendingProjections()
        sites.on_close.append(self.projections.close)
        self._last: RecentProduct | None = None
        self._unrecorded: RecentProduct | None = None  # ran, and its call was not reported yet
        self.edited_weights: Tensor | None = None  # of the last edited product

    def describe(self, name: str, args: tuple[Any, ...]) -> RecentProduct | None:
        """A product that is about to run, and how the caller edits it; None without weights."""
        product = product_of(name, args)
        if product is not None and not are_readable((product.left, product.right)):
            return None
        if product is not None:
            self.projections.check(product)
        place, manual = (0, None) if product is None else _find_weights(product)
        if product is None or manual is None:
            return None
        record = describe_manual_call(self.sites, manual)
        assert record.weights is not None
        weighted = read_weighted_sum(product, place, record.weights)
        changes = self._find_changes(manual, record, weighted)
        if changes and weighted is None:
            raise _cannot_edit(record.site)
        keep, known = self.options.keep, weighted is not None
        slot = GradientSlot() if keep.gradients and known else None
        projection = OutputProjection() if keep.outputs and known else None
        return RecentProduct(manual, changes, weighted, slot, projection)

    def remember(self, recent: RecentProduct) -> None:
        """Remember a product that runs, unless it is a second one of the same weights."""
        weighted, changes = recent.weighted, recent.changes
        if weighted is not None and any(change.weights is not None for change in changes):
            self.edited_weights = change_weights(weighted.weights, changes)
        if self._last is None or self._last.manual.weights is not recent.manual.weights:
            self._last = self._unrecorded = recent

    def await_extras(self, recent: RecentProduct, result: Tensor) -> None:
        """Wait for the gradient of a product that has run, and for its output projection."""
        weighted, slot = recent.weighted, recent.gradient_slot
        assert weighted is not None
        if slot is not None and result.requires_grad:
            result.register_hook(lambda gradient: slot.add(weighted.to_context(gradient)))
        if recent.projection is not None:
            self.projections.add(recent.projection, weighted.to_context(result.detach()))

    def _find_changes(
        self, manual: ManualWeights, record: CallRecord, weighted: WeightedSum | None
    ) -> list[HeadChange]:
        """What the caller changes; weights that go into a second product stay changed."""
        if self._last is not None and self._last.manual.weights is manual.weights:
            return [change for change in self._last.changes if change.weights is not None]
        return self.options.editor.changes(_call_for_edit(record, weighted))

    def complete(self, record: CallRecord) -> CallRecord:
        """The record of a reported call, with the edits and extras of the product it came by."""
        recent, keep, self._unrecorded = self._unrecorded, self.options.keep, None
        record = replace(record, heads=self.options.sites.heads(record.site))
        if recent is None or recent.weighted is None:
            if self.options.editor.changes(_call_for_edit(record, None)):
                raise _cannot_edit(record.site)
            return record
        assert record.weights is not None
        return replace(
            record,
            weights=change_weights(record.weights, recent.changes).detach(),
            value=recent.weighted.value.detach() if keep.values else None,
            gradient_slot=recent.gradient_slot,
            projection=recent.projection,
        )


DescribedProduct = tuple[ManualProducts, RecentProduct]  # for one watcher


def run_described(
    described: Sequence[DescribedProduct],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Any,
) -> Any:
    """Run a product that one or more callers have described, once and with the edits of all."""
    changes = merge_changes([recent.changes for _, recent in described])
    described = [(products, replace(recent, changes=changes)) for products, recent in described]
    for products, recent in described:
        products.remember(recent)
    readable = [pair for pair in described if pair[1].weighted is not None]
    if not readable:
        return function(*args, **kwargs)
    (products, recent), *_ = readable
    weighted = recent.weighted
    assert weighted is not None
    if any(change.weights is not None for change in changes):
        assert products.edited_weights is not None
        operand = weighted.operands[weighted.place]
        args = _replace_operand(args, operand, weighted.to_operand(products.edited_weights))
    result = _put_contexts(weighted, function(*args, **kwargs), changes)
    for products, recent in readable:
        products.await_extras(recent, result)
    if (out := kwargs.get("out")) is not None and out is not result:
        result = out.copy_(result)  # an edited context goes where the caller wants it
    return result


def _find_weights(product: Product) -> tuple[int, ManualWeights | None]:
    """Which factor of a product is weights that are summed over keys, and the weights."""
    for place, (operand, factor) in enumerate(
        zip((product.left, product.right), product.sides, strict=True)
    ):
        origin = origin_of(operand)
        manual = origin.weights_over_keys
        if manual is None or origin.pair is None or len(factor.summed) != 1:
            continue
        if origin.pair.right.axis == factor.summed[0]:
            return place, manual
        if origin.pair.is_product and origin.pair.left.axis == factor.summed[0]:
            return place, replace(manual, pair=manual.pair.swapped)
    return 0, None


def _call_for_edit(record: CallRecord, weighted: WeightedSum | None) -> AttentionCall:
    """The call as an edit function sees it."""
    assert record.weights is not None
    weights = record.weights if weighted is None else weighted.weights
    _, _, queries, keys = record.sizes
    # a dense causal mask lets the last query see the last key
    see = partial(visible_keys, record.mask, record.sizes, keys - queries, weights.device)
    value = None if weighted is None else weighted.value
    return AttentionCall(record.site, record.sizes, None, None, value, None, lambda: weights, see)


def _put_contexts(weighted: WeightedSum, result: Any, changes: list[HeadChange]) -> Any:
    """The product's result, with the contexts of edits put in."""
    contexts = [change for change in changes if change.context is not None]
    if not contexts:
        return result
    context = change_context(weighted.to_context(result), weighted.value, contexts)
    return weighted.to_result(context, result)


def _replace_operand(args: tuple[Any, ...], operand: Tensor, other: Tensor) -> tuple[Any, ...]:
    """The arguments with another operand, one level into lists and tuples."""
    return tuple(
        type(item)(_replace_operand(tuple(item), operand, other))
        if isinstance(item, list | tuple)
        else (other if item is operand else item)
        for item in args
    )


def _cannot_edit(site: str) -> InputError:
    return InputError(
        f"the attention of {site!r} is written so that its weights cannot be edited: how they "
        "meet their values is not plain from a product of the two; edit other sites, or "
        "register_tap the function"
    )
