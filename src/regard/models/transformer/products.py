"""Products by the matrices of a layer, without the layer around them."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

_FEW = 32  # rows up to which oneDNN is quicker than torch's own choice, on a large matrix
_LARGE = 1 << 20  # numbers of a matrix that make up for the time to call it


class Product(NamedTuple):
    """x W^T + b for the rows of a matrix."""

    weight: Float[Tensor, "out dim"]
    turned: Float[Tensor, "dim out"]
    bias: Float[Tensor, " out"] | None
    large: bool

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None) -> "Product":
        """The product by this matrix; where it is large, by oneDNN if the machine has it."""
        weight = weight.detach()
        plain = weight.dtype == torch.float32 and weight.device.type == "cpu"
        large = plain and weight.numel() >= _LARGE and torch.backends.mkldnn.is_available()
        return Product(weight, weight.t(), None if bias is None else bias.detach(), large)

    @staticmethod
    def by(linear: nn.Linear) -> "Product":
        """The product of a linear layer."""
        return Product.of(linear.weight, linear.bias)

    def __call__(self, x: Float[Tensor, "row dim"]) -> Float[Tensor, "row out"]:
        """The product with each row."""
        if self.large and 1 < x.shape[0] <= _FEW:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self.weight, self.bias, "none", [], ""
            )
            return product
        if self.bias is None:
            return torch.mm(x, self.turned)
        return torch.addmm(self.bias, x, self.turned)
