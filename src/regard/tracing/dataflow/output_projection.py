"""Finds the output projection W_O: the matrix that the contexts of all heads go straight into.

A context is remembered for a few products. When a factor of a product holds the same numbers as the
context, in an order in which heads may lie, the other factor is its projection, and each head's
part of it can be cut out.
"""

from collections import deque
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.tracing.dataflow.origins import origin_of
from regard.tracing.dataflow.products import Letters, Product

_MAX_PENDING = 4  # contexts that may be on their way to a projection at a time

Context = Float[Tensor, "batch head query value_dim"]
HeadParts = Float[Tensor, "head value_dim model"]
# How (batch, head, query, dim) of a context may lie in the rows that a matrix is multiplied by:
# most models put heads one after the other, with examples before or after the tokens.
_ORDERS = ((0, 2, 1, 3), (2, 0, 1, 3), (0, 2, 3, 1), (2, 0, 3, 1))


class OutputProjection:
    """The output projection of one context: unknown at first, set when the context meets it.

    A context that goes into two matrices, as beside an adapter, has no single projection.
    """

    def __init__(self, context: Context | None = None) -> None:
        self.head_parts: HeadParts | None = None
        self._matrices = self._version = 0
        self._context: Context | None = None
        if context is not None:
            self.hold(context)

    def hold(self, context: Context) -> None:
        """Wait with this context; a copy in inference mode, which counts no changes."""
        self._context = context.clone() if context.is_inference() else context
        self._version = 0 if context.is_inference() else context._version

    def check(self, product: Product, copies: "ProjectionCopies") -> None:
        """Take the matrix of a product if the other factor is the context, unchanged."""
        context = self._context
        if context is None or not (context.is_inference() or context._version == self._version):
            return
        left, right, result = product.letters
        for x, matrix, letters in (
            (product.left, product.right, (left, right, result)),
            (product.right, product.left, (right, left, result)),
        ):
            if x.numel() == context.numel() and origin_of(matrix).stream is None:
                parts = _cut_into_heads(context, x, matrix, letters)
                if parts is not None:
                    self._matrices += 1
                    self.head_parts = copies.copy(matrix, parts) if self._matrices == 1 else None

    def release(self) -> None:
        """Wait no longer, and let go of the context."""
        self._context = None


class ProjectionCopies:
    """Copies of projections as they were when used; one for all steps of decoding."""

    def __init__(self) -> None:
        self._known = dict[Any, HeadParts]()

    def copy(self, matrix: Tensor, parts: HeadParts) -> HeadParts:
        """A copy of the parts, shared with earlier calls if the parameter has not changed."""
        owner = matrix if matrix._base is None else matrix._base
        if not isinstance(owner, nn.Parameter) or owner.is_inference():
            return parts.detach().clone()
        place = (matrix.data_ptr(), matrix.shape, matrix.stride())
        key = (*place, parts.shape, parts.stride(), owner._version)
        if key not in self._known:
            self._known[key] = parts.detach().clone()
        return self._known[key]


class PendingProjections:
    """The latest contexts of a run that have not met their projection yet."""

    def __init__(self) -> None:
        self._pending, self._copies = deque[OutputProjection](), ProjectionCopies()

    def add(self, projection: OutputProjection, context: Context | None = None) -> None:
        """Let a context wait; the one that has waited longest is released."""
        if context is not None:
            projection.hold(context)
        self._pending.append(projection)
        if len(self._pending) > _MAX_PENDING:
            self._pending.popleft().release()

    def check(self, product: Product) -> None:
        """See whether one of the contexts goes into a product."""
        for projection in self._pending:
            projection.check(product, self._copies)

    def close(self) -> None:
        """Release all contexts."""
        while self._pending:
            self._pending.pop().release()
        self._copies = ProjectionCopies()


def _cut_into_heads(
    context: Context, x: Tensor, matrix: Tensor, letters: Letters
) -> HeadParts | None:
    """Each head's part of the matrix, if the numbers of x are those of the context."""
    own, others, result = letters
    summed = [letter for letter in own if letter in others and letter not in result]
    _, heads, _, dim = context.shape
    inner = prod(x.shape[own.index(letter)] for letter in summed)
    batched = {*own} & {*others} & {*result}  # one matrix for each example is no projection
    if batched or inner != heads * dim or x.dtype != context.dtype:
        return None
    rows = x.permute(_axis_order(own, summed)).reshape(-1, inner)
    columns = matrix.permute(_axis_order(others, summed, summed_first=True)).reshape(inner, -1)
    for order in _ORDERS:
        if torch.equal(context.permute(order).reshape(-1, inner), rows):
            if order[2] == 1:
                return columns.reshape(heads, dim, -1)
            return columns.reshape(dim, heads, -1).transpose(0, 1)
    return None


def _axis_order(letters: str, summed: list[str], *, summed_first: bool = False) -> list[int]:
    """The axes with those that are summed over after the others, or before them."""
    rest = [letter for letter in letters if letter not in summed]
    order = summed + rest if summed_first else rest + summed
    return [letters.index(letter) for letter in order]
