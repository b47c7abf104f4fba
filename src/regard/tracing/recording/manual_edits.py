"""Products of attention written by hand: edited before they run, and what is kept of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.tracing.dataflow.origins import Weighing, mark_of
from regard.tracing.dataflow.output_projection import Outlet, Outlets
from regard.tracing.dataflow.products import Product, product_of
from regard.tracing.recording.editor import Change, given, used
from regard.tracing.recording.edits import AttentionCall
from regard.tracing.recording.manual_product import Mixture, told
from regard.tracing.recording.manual_softmax import by_hand
from regard.tracing.recording.observe_call import seen_keys
from regard.tracing.recording.options import Kept, Landing
from regard.tracing.recording.record import CallRecord
from regard.tracing.recording.watch_options import WatchOptions
from regard.tracing.sites import Sites


@dataclass(frozen=True, eq=False)
class Mixed:
    """A product that ran: by which weights, what was changed in them, and what is kept of it."""

    weighing: Weighing
    changes: list[Change]
    mixture: Mixture | None
    landing: Landing | None = None
    outlet: Outlet | None = None


class Mixer:
    """Runs products, with other weights where a caller wants so."""

    def __init__(self, sites: Sites, wishes: WatchOptions) -> None:
        self.sites, self.wishes = sites, wishes
        keep = wishes.keep
        self.idle = not (wishes.editor or keep.values or keep.gradients or keep.outputs)
        self.outlets = Outlets()
        sites.closed.append(self.outlets.close)
        self.last: Mixed | None = None
        self._pending: Mixed | None = None  # a product of which no call was handed on yet
        self.used: Tensor | None = None  # the weights of the last edited product

    def run(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """The product, of what the caller wants where one of its factors is weights."""
        product = product_of(name, args)
        if product is not None:
            self.outlets.meet(product)
        place, weighing = (0, None) if product is None else _weights(product)
        if product is None or weighing is None:
            return function(*args, **kwargs)
        seen = by_hand(self.sites, weighing)
        assert seen.weights is not None
        mixture = told(product, place, seen.weights)
        changes = self._changes(weighing, seen, mixture)
        if changes and mixture is None:
            raise _refusal(seen.site)
        landing = Landing() if self.wishes.keep.gradients and mixture is not None else None
        outlet = Outlet() if self.wishes.keep.outputs and mixture is not None else None
        if self.last is None or self.last.weighing.weights is not weighing.weights:
            self.last = self._pending = Mixed(weighing, changes, mixture, landing, outlet)
        if mixture is None:
            return function(*args, **kwargs)
        if any(each.weights is not None for each in changes):
            self.used = used(mixture.weights, changes)
            args = _with(args, mixture.operands[place], mixture.operand(self.used))
        result = _given(mixture, function(*args, **kwargs), changes)
        if landing is not None and result.requires_grad:
            result.register_hook(lambda gradient: landing.take(mixture.context(gradient)))
        if outlet is not None:
            self.outlets.wait(outlet, mixture.context(result.detach()))
        return result

    def _changes(
        self, weighing: Weighing, seen: CallRecord, mixture: Mixture | None
    ) -> list[Change]:
        """What the caller wants changed; weights that go into a second product stay changed."""
        if self.last is not None and self.last.weighing.weights is weighing.weights:
            return [each for each in self.last.changes if each.weights is not None]
        return self.wishes.editor.changes(_call(seen, mixture))

    def kept(self, seen: CallRecord) -> CallRecord:
        """A call written by hand with what was used and is kept, if it came by a product here."""
        last, keep, self._pending = self._pending, self.wishes.keep, None
        kept = Kept(self.wishes.choice.heads(seen.site))
        if last is None or last.mixture is None:
            if self.wishes.editor.changes(_call(seen, None)):
                raise _refusal(seen.site)
            return replace(seen, kept=kept)
        value = last.mixture.value.detach() if keep.values else None
        kept = replace(kept, value=value, landing=last.landing, outlet=last.outlet)
        assert seen.weights is not None
        return replace(seen, weights=used(seen.weights, last.changes).detach(), kept=kept)


def _weights(product: Product) -> tuple[int, Weighing | None]:
    """Which factor of a product is weights, and what made them, keys where they are summed over."""
    for place, (factor, side) in enumerate(
        zip((product.left, product.right), product.sides, strict=True)
    ):
        mark = mark_of(factor)
        if mark.weighing is None or mark.pair is None or len(side.summed) != 1:
            continue
        if mark.pair.right.axis == side.summed[0]:
            return place, mark.weighing
        if mark.pair.is_product and mark.pair.left.axis == side.summed[0]:
            return place, replace(mark.weighing, pair=mark.weighing.pair.turned)
    return 0, None


def _call(seen: CallRecord, mixture: Mixture | None) -> AttentionCall:
    assert seen.weights is not None
    own = seen.weights if mixture is None else mixture.weights
    _, _, queries, keys = seen.sizes
    # a dense causal mask lets the last query see the last key
    see = partial(seen_keys, seen.mask, seen.sizes, keys - queries, own.device)
    value = None if mixture is None else mixture.value
    return AttentionCall(seen.site, seen.sizes, None, None, value, None, lambda: own, see)


def _given(mixture: Mixture, result: Any, changes: list[Change]) -> Any:
    """The product's result with contexts that a caller gives."""
    contexts = [each for each in changes if each.context is not None]
    if not contexts:
        return result
    return mixture.result(given(mixture.context(result), mixture.value, contexts), result)


def _with(args: tuple[Any, ...], operand: Tensor, other: Tensor) -> tuple[Any, ...]:
    """The arguments with another operand, one level into lists and tuples."""
    return tuple(
        type(each)(_with(tuple(each), operand, other))
        if isinstance(each, list | tuple)
        else (other if each is operand else each)
        for each in args
    )


def _refusal(site: str) -> InputError:
    return InputError(
        f"the attention of {site!r} is written so that its weights cannot be edited: how they "
        "meet their values is not plain from a product of the two; edit other sites, or "
        "register_tap the function"
    )
