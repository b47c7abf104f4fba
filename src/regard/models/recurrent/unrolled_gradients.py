"""UnrolledLinear: a linear layer for every step of a loop, with one product for its gradient."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import has_torch_function

Rows = Float[Tensor, "row dim"]
Products = Float[Tensor, "row out"]
Matrix = Float[Tensor, "out dim"]
Recorded = list[tuple[Products, Rows]]  # gradient and input of each step


class UnrolledLinear:
    """Computes x W^T + b for the x of one step after another.

    The gradient of W is the sum over steps t of g_t x_t^T. Computed one by one, each term is a
    small product and an addition over all of W. Here the backward pass of each step only records
    g_t and x_t, and after the last of them one large product gives the sum.

    `_SumGradients` makes this happen: it returns a zero (`anchor`) that is an input of every step,
    so that autograd runs its backward pass after those of all steps.

    >>> import torch
    >>> from regard.models.recurrent.unrolled_gradients import UnrolledLinear
    >>> UnrolledLinear(torch.eye(2), torch.ones(2))(torch.tensor([[3.0, 5.0]])).tolist()
    [[4.0, 6.0]]
    """

    def __init__(self, weight: Matrix, bias: Float[Tensor, " out"] | None = None) -> None:
        self.weight, self.bias = weight, bias
        self.recorded: Recorded = []
        self.anchor: Tensor | None = None
        if torch.is_grad_enabled() and weight.requires_grad and not _is_observed(weight):
            self.anchor = _SumGradients.apply(weight, bias, self.recorded)  # type: ignore[no-untyped-call]

    def __call__(self, x: Rows, added: Products | None = None) -> Products:
        """The product of one step plus `added`."""
        if self.anchor is None:
            if added is None or self.bias is not None:
                product = F.linear(x, self.weight, self.bias)
                return product if added is None else added + product
            return torch.addmm(added, x, self.weight.t())
        # The weight is detached: its gradient goes through the anchor alone.
        product_of_step: Tensor = _Step.apply(  # type: ignore[no-untyped-call]
            x, added, self.anchor, self.weight.detach(), self.bias, self.recorded
        )
        return product_of_step


def _is_observed(weight: Tensor) -> bool:
    """True inside torch.compile, or if something intercepts operations on the weight."""
    return torch.compiler.is_compiling() or has_torch_function((weight,))


class _SumGradients(torch.autograd.Function):
    """Returns the anchor; its backward pass, which runs last, sums the recorded gradients."""

    @staticmethod
    def forward(ctx: Any, weight: Matrix, bias: Tensor | None, recorded: Recorded) -> Tensor:
        ctx.recorded, ctx.biased = recorded, bias is not None
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        gradients, inputs = (torch.cat(parts) for parts in zip(*ctx.recorded, strict=True))
        ctx.recorded.clear()
        return gradients.t() @ inputs, gradients.sum(dim=0) if ctx.biased else None, None


class _Step(torch.autograd.Function):
    """The product of one step; its backward pass only records what the weight's gradient needs."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Rows,
        added: Products | None,
        anchor: Tensor,
        weight: Matrix,
        bias: Tensor | None,
        recorded: Recorded,
    ) -> Products:
        ctx.save_for_backward(x, weight)
        ctx.recorded, ctx.added = recorded, added is not None
        product = F.linear(x, weight, None if bias is None else bias.detach())
        return product if added is None else product.add_(added)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Products) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.recorded.append((gradient, x))
        to_x = gradient @ weight if ctx.needs_input_grad[0] else None
        return to_x, gradient if ctx.added else None, gradient.new_zeros(()), None, None, None
