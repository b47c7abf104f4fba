"""What follows the data: marks passed on after every function, attention by hand recognised."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.tracing.byhand import by_hand
from regard.tracing.flow import (
    BEGINNINGS,
    PRODUCTS,
    SOFTMAXES,
    Mark,
    Weighing,
    mark_of,
    pass_on,
    put,
    tensors,
)
from regard.tracing.seen import Seen
from regard.tracing.sites import Sites
from regard.types import Gap


class Follower:
    """Follows every tensor of a run; hands on what was written by hand, and names gaps.

    `grids` are the rows and columns of the patches with which a picture's stream began.
    """

    def __init__(self, sites: Sites, keep: Callable[[Seen], None]) -> None:
        self.sites, self._keep = sites, keep
        self.gaps: list[Gap] = []
        self.grids: dict[str, tuple[int, int]] = {}
        self._last: Weighing | None = None

    def follow(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Pass marks on, and note attention that was written by hand."""
        pass_on(function, args, kwargs, result)
        if not isinstance(result, Tensor):
            return
        if function in BEGINNINGS and mark_of(result).stream is None:
            put(result, Mark(self.sites.caller))
        elif function in SOFTMAXES:
            self._weighed(args, kwargs, result)
        elif function in PRODUCTS:
            self._mixed(list(tensors(args)))

    def _weighed(self, args: tuple[Any, ...], kwargs: dict[str, Any], weights: Tensor) -> None:
        """A softmax of scores that came from a product of two tensors may be attention."""
        scores = args[0] if args else kwargs["input"]
        product = mark_of(scores).product
        axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        if product is None or axis not in (-1, weights.dim() - 1):
            return
        # detached, so that the mark on the weights does not hold the weights themselves
        weighing = Weighing(weights.detach(), scores.detach(), product)
        put(weights, Mark(product[0], weighing=weighing))

    def _mixed(self, operands: list[Tensor]) -> None:
        """A product of weights and values: attention written by hand."""
        for operand in operands:
            weighing = mark_of(operand).weighing
            if weighing is not None and weighing is not self._last:
                self._last = weighing
                self._keep(by_hand(self.sites, weighing, operand))
