"""Where contexts go: the matrix that joins the heads, W_O, if they go straight into one."""

from collections import deque
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.tracing.dataflow.origins import mark_of
from regard.tracing.dataflow.products import Product

_WAITING = 4  # contexts that may be on their way at a time

Context = Float[Tensor, "batch head query value_dim"]
Output = Float[Tensor, "head value_dim model"]
# batch, head, query and dim of a context, as rows of what a matrix is multiplied by: most lay
# heads one behind the other, with the examples before or behind the tokens
_ORDERS = ((0, 2, 1, 3), (2, 0, 1, 3), (0, 2, 3, 1), (2, 0, 3, 1))


class Outlet:
    """Where a context waits for its matrix, and each head's part of it when it has come.

    A context that goes into two matrices, as beside an adapter, has none of its own.
    """

    def __init__(self, context: Context | None = None) -> None:
        self.output: Output | None = None
        self._matrices = self._version = 0
        self._context: Context | None = None
        if context is not None:
            self.hold(context)

    def hold(self, context: Context) -> None:
        """Wait with this context, as it is now; in inference mode nobody counts changes."""
        self._context = context.clone() if context.is_inference() else context
        self._version = 0 if context.is_inference() else context._version

    def meet(self, product: Product, copies: "Copies") -> None:
        """Note the matrix of a product, if the other factor is the context."""
        context = self._context
        if context is None or not (context.is_inference() or context._version == self._version):
            return
        one, other, result = product.letters
        for x, matrix, letters in (
            (product.left, product.right, (one, other, result)),
            (product.right, product.left, (other, one, result)),
        ):
            if x.numel() == context.numel() and mark_of(matrix).stream is None:
                found = _parts(context, x, matrix, letters)
                if found is not None:
                    self._matrices += 1
                    self.output = copies.of(matrix, found) if self._matrices == 1 else None

    def close(self) -> None:
        """Wait no longer."""
        self._context = None


class Copies:
    """Parts of matrices as they were when they were used, one copy for all steps of decoding."""

    def __init__(self) -> None:
        self._known = dict[Any, Output]()

    def of(self, matrix: Tensor, parts: Output) -> Output:
        """The parts, copied unless the same ones of a parameter were before."""
        owner = matrix if matrix._base is None else matrix._base
        if not isinstance(owner, nn.Parameter) or owner.is_inference():
            return parts.detach().clone()
        place = (matrix.data_ptr(), matrix.shape, matrix.stride())
        key = (*place, parts.shape, parts.stride(), owner._version)
        if key not in self._known:
            self._known[key] = parts.detach().clone()
        return self._known[key]


class Outlets:
    """The contexts of a run that are on their way, the latest of them."""

    def __init__(self) -> None:
        self._waiting, self._copies = deque[Outlet](), Copies()

    def wait(self, outlet: Outlet, context: Context | None = None) -> None:
        """Let a context wait; the one that has waited longest goes."""
        if context is not None:
            outlet.hold(context)
        self._waiting.append(outlet)
        if len(self._waiting) > _WAITING:
            self._waiting.popleft().close()

    def meet(self, product: Product) -> None:
        """Look whether one of them goes into a product."""
        for each in self._waiting:
            each.meet(product, self._copies)

    def close(self) -> None:
        """Let go of all."""
        while self._waiting:
            self._waiting.pop().close()
        self._copies = Copies()


def _parts(
    context: Context, x: Tensor, matrix: Tensor, letters: tuple[str, str, str]
) -> Output | None:
    """Each head's part of the matrix that x is multiplied by, if x is the context; numbers tell."""
    own, others, result = letters
    summed = [each for each in own if each in others and each not in result]
    _, heads, _, dim = context.shape
    inner = prod(x.shape[own.index(each)] for each in summed)
    shared = {*own} & {*others} & {*result}  # as many matrices as examples
    if shared or inner != heads * dim or x.dtype != context.dtype:
        return None
    rows = x.permute(_order(own, summed)).reshape(-1, inner)
    columns = matrix.permute(_order(others, summed, first=True)).reshape(inner, -1)
    for order in _ORDERS:
        if torch.equal(context.permute(order).reshape(-1, inner), rows):
            if order[2] == 1:
                return columns.reshape(heads, dim, -1)
            return columns.reshape(dim, heads, -1).transpose(0, 1)
    return None


def _order(letters: str, summed: list[str], *, first: bool = False) -> list[int]:
    """The axes with those that are summed over behind the others, or before them."""
    rest = [each for each in letters if each not in summed]
    return [letters.index(each) for each in (summed + rest if first else rest + summed)]
