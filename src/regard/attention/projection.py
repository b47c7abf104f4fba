"""Matrix products of linear layers without the layer's own overhead, for decoding token by token.

`projection(layer)` gives the product of one layer, or of several layers concatenated. The decoder
calls it with a few rows at each step, where a native kernel is faster than torch's.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from regard.attention.quantised import QuantisedLinear
from regard.kernels.decode.int8 import native_int8_matvec, supports_int8_matvec
from regard.kernels.decode.matvec import MAX_MATVEC_ROWS, native_matvec, supports_matvec

Row = Float[Tensor, "row dim"]


@runtime_checkable
class Projection(Protocol):
    """A product of rows with a fixed matrix, such as Product or QuantisedProduct."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The widths of an output row and of an input row."""

    @property
    def native(self) -> bool:
        """True if a native kernel computes it."""

    def __call__(self, x: Row) -> Float[Tensor, "row out"]:
        """The product with each row."""


class Product(NamedTuple):
    """x W^T + b for the rows of x, without gradients; by a native kernel if there are few rows.

    >>> import torch
    >>> from regard.attention.projection import Product
    >>> Product.of(torch.eye(2), torch.ones(2))(torch.tensor([[3.0, 5.0]])).tolist()
    [[4.0, 6.0]]
    """

    weight: Float[Tensor, "out dim"]
    transposed: Float[Tensor, "dim out"]
    bias: Float[Tensor, " out"] | None
    native: bool

    @staticmethod
    def of(weight: Float[Tensor, "out dim"], bias: Float[Tensor, " out"] | None) -> "Product":
        """The product with this matrix and bias."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        return Product(weight, weight.t(), bias, supports_matvec(weight))

    @property
    def sizes(self) -> tuple[int, int]:
        """The widths of an output row and of an input row."""
        return self.weight.shape[0], self.weight.shape[1]

    def __call__(self, x: Row) -> Float[Tensor, "row out"]:
        """The product with each row."""
        if self.native and x.shape[0] <= MAX_MATVEC_ROWS:
            return native_matvec(x, self.weight, self.bias)
        if self.bias is None:
            return torch.mm(x, self.transposed)
        return torch.addmm(self.bias, x, self.transposed)


class QuantisedProduct(NamedTuple):
    """x (scale W)^T + b for the rows of x, with W stored in int8."""

    weight: Int8[Tensor, "out dim"]
    scale: Float[Tensor, " out"]
    bias: Float[Tensor, " out"] | None
    native: bool

    @property
    def sizes(self) -> tuple[int, int]:
        """The widths of an output row and of an input row."""
        return self.weight.shape[0], self.weight.shape[1]

    def __call__(self, x: Row) -> Float[Tensor, "row out"]:
        """The product with each row."""
        if self.native and x.dtype == torch.float32:
            return native_int8_matvec(x, self.weight, self.scale, self.bias)
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale[:, None], self.bias)


def projection(*layers: nn.Linear | QuantisedLinear) -> Projection | None:
    """The product of one layer, or of several quantised layers as one matrix; None otherwise."""
    first = layers[0]
    if all(type(layer) is QuantisedLinear for layer in layers):
        return _quantised_product(layers)  # type: ignore[arg-type]
    if len(layers) == 1 and type(first) is nn.Linear:
        return Product.of(first.weight, first.bias)
    return None


def _quantised_product(layers: tuple[QuantisedLinear, ...]) -> QuantisedProduct:
    """The layers as one matrix; several are concatenated once, and the first layer caches it."""
    first = layers[0]
    if len(layers) == 1:
        weight, scale, bias = first.values, first.scale, first.bias
    else:
        weight, scale, bias = first.beside(layers[1:])
    return QuantisedProduct(weight, scale, bias, supports_int8_matvec(weight, scale))
