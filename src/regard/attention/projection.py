"""Products by a matrix without the layer around it: what decoding a token is made of."""

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
    """Something that multiplies rows by a matrix; natively, if it says so."""

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers of a row come out, and how many go in."""

    @property
    def native(self) -> bool:
        """Whether a native kernel takes it."""

    def __call__(self, x: Row) -> Float[Tensor, "row out"]:
        """The product with each row."""


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
        return Product(weight, weight.t(), bias, supports_matvec(weight))

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers of a row come out, and how many go in."""
        return self.weight.shape[0], self.weight.shape[1]

    def __call__(self, x: Row) -> Float[Tensor, "row out"]:
        """The product with each row."""
        if self.native and x.shape[0] <= MAX_MATVEC_ROWS:
            return native_matvec(x, self.weight, self.bias)
        if self.bias is None:
            return torch.mm(x, self.turned)
        return torch.addmm(self.bias, x, self.turned)


class QuantisedProduct(NamedTuple):
    """x (scale W)^T + b for the rows of x, W in eight bits."""

    weight: Int8[Tensor, "out dim"]
    scale: Float[Tensor, " out"]
    bias: Float[Tensor, " out"] | None
    native: bool

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers of a row come out, and how many go in."""
        return self.weight.shape[0], self.weight.shape[1]

    def __call__(self, x: Row) -> Float[Tensor, "row out"]:
        """The product with each row."""
        if self.native and x.dtype == torch.float32:
            return native_int8_matvec(x, self.weight, self.scale, self.bias)
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale[:, None], self.bias)


def projection(*layers: nn.Linear | QuantisedLinear) -> Projection | None:
    """The product of a layer, or of several one under the other; None if they are not alike."""
    first = layers[0]
    if all(type(each) is QuantisedLinear for each in layers):
        return _beside(layers)  # type: ignore[arg-type]
    if len(layers) == 1 and type(first) is nn.Linear:
        return Product.of(first.weight, first.bias)
    return None


def _beside(layers: tuple[QuantisedLinear, ...]) -> QuantisedProduct:
    """The layers as one matrix, laid together once and kept with the first of them."""
    first = layers[0]
    if len(layers) == 1:
        weight, scale, bias = first.values, first.scale, first.bias
    else:
        weight, scale, bias = first.beside(layers[1:])
    return QuantisedProduct(weight, scale, bias, supports_int8_matvec(weight, scale))
