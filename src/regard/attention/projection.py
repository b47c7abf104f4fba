"""Products by a matrix without the layer around it: what decoding a token is made of."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels.few import MOST, multiply, takes_matrix


class Product(NamedTuple):
    """x W^T + b for the rows of x, without gradients; natively while the rows are few.

    >>> import torch
    >>> from regard.attention.projection import Product
    >>> Product.of(torch.eye(2), torch.ones(2))(torch.tensor([[3.0, 5.0]])).tolist()
    [[4.0, 6.0]]
    """

    weight: Float[Tensor, "out dim"]
    turned: Float[Tensor, "dim out"]
    bias: Float[Tensor, " out"] | None
    native: bool

    @staticmethod
    def of(weight: Float[Tensor, "out dim"], bias: Float[Tensor, " out"] | None) -> "Product":
        """The product by this matrix."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        return Product(weight, weight.t(), bias, takes_matrix(weight))

    @staticmethod
    def by(linear: nn.Linear) -> "Product":
        """The product of a linear layer."""
        return Product.of(linear.weight, linear.bias)

    def __call__(self, x: Float[Tensor, "row dim"]) -> Float[Tensor, "row out"]:
        """The product with each row."""
        if self.native and x.shape[0] <= MOST:
            return multiply(x, self.weight, self.bias)
        if self.bias is None:
            return torch.mm(x, self.turned)
        return torch.addmm(self.bias, x, self.turned)
