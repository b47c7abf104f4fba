"""A product that is made once for each step, its matrix learning from all steps at once."""

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
Noted = list[tuple[Products, Rows]]


class Repeated:
    """x W^T + b for the x of one step after another.

    The gradient of W is the sum over steps of g_t x_t^T: made one by one, each is a small product
    and a sum over all of W. Here the backward pass notes g_t and x_t, and makes one large product.

    >>> import torch
    >>> from regard.models.recurrent.unrolled_gradients import Repeated
    >>> Repeated(torch.eye(2), torch.ones(2))(torch.tensor([[3.0, 5.0]])).tolist()
    [[4.0, 6.0]]
    """

    def __init__(self, weight: Matrix, bias: Float[Tensor, " out"] | None = None) -> None:
        self.weight, self.bias = weight, bias
        self.noted: Noted = []
        self.mark: Tensor | None = None
        if torch.is_grad_enabled() and weight.requires_grad and not _seen(weight):
            self.mark = _Once.apply(weight, bias, self.noted)  # type: ignore[no-untyped-call]

    def __call__(self, x: Rows, added: Products | None = None) -> Products:
        """The products of one step, and what is added to them."""
        if self.mark is None:
            if added is None or self.bias is not None:
                product = F.linear(x, self.weight, self.bias)
                return product if added is None else added + product
            return torch.addmm(added, x, self.weight.t())
        found: Tensor = _Step.apply(  # type: ignore[no-untyped-call]
            x, added, self.mark, self.weight.detach(), self.bias, self.noted
        )
        return found


def _seen(weight: Tensor) -> bool:
    """Whether somebody wants to see the products one by one, or to compile them."""
    return torch.compiler.is_compiling() or has_torch_function((weight,))


class _Once(torch.autograd.Function):
    """Comes before all steps forward, and so after all of them backward."""

    @staticmethod
    def forward(ctx: Any, weight: Matrix, bias: Tensor | None, noted: Noted) -> Tensor:
        ctx.noted, ctx.biased = noted, bias is not None
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        gradients, inputs = (torch.cat(each) for each in zip(*ctx.noted, strict=True))
        ctx.noted.clear()
        return gradients.t() @ inputs, gradients.sum(dim=0) if ctx.biased else None, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Rows,
        added: Products | None,
        mark: Tensor,
        weight: Matrix,
        bias: Tensor | None,
        noted: Noted,
    ) -> Products:
        ctx.save_for_backward(x, weight)
        ctx.noted, ctx.added = noted, added is not None
        product = F.linear(x, weight, None if bias is None else bias.detach())
        return product if added is None else product.add_(added)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Products) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.noted.append((gradient, x))
        to_x = gradient @ weight if ctx.needs_input_grad[0] else None
        return to_x, gradient if ctx.added else None, gradient.new_zeros(()), None, None, None
