"""A linear layer with its matrix in int8: a quarter of float32's memory and memory traffic."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from regard.kernels.decode.int8 import native_int8_matvec, supports_int8_matvec

__all__ = ["QuantisedLinear"]

_LARGEST = 127  # of int8, used symmetrically: -128 is never stored

Parts = tuple[Int8[Tensor, "out dim"], Float[Tensor, " out"], Float[Tensor, " out"] | None]


class QuantisedLinear(nn.Module):
    """x W^T + b, each row of W in int8 with a scale of its own (Dettmers et al. 2022, section 2).

    For inference only: it has buffers and no parameters. On a CPU with the native kernel the input
    vectors are rounded to int8 too, each scaled by its largest number; elsewhere only W is.

    >>> import torch
    >>> from regard.attention import QuantisedLinear
    >>> layer = QuantisedLinear.of(torch.nn.Linear(5, 3))
    >>> layer.values.dtype, layer(torch.randn(2, 5)).shape
    (torch.int8, torch.Size([2, 3]))
    """

    values: Int8[Tensor, "out dim"]
    scale: Float[Tensor, " out"]
    bias: Float[Tensor, " out"] | None

    def __init__(self, dim: int, outs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.register_buffer("values", torch.zeros(outs, dim, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(outs))
        self.register_buffer("bias", torch.zeros(outs) if bias else None)
        # the result of `beside`, with the tensors that it was made from
        self._joined_cache: tuple[tuple[object, ...], Parts] | None = None

    @staticmethod
    def of(linear: nn.Linear) -> "QuantisedLinear":
        """The linear layer quantised, each weight rounded to the nearest int8 step of its row."""
        outs, dim = linear.weight.shape
        layer = QuantisedLinear(dim, outs, bias=linear.bias is not None).to(linear.weight)
        layer.quantise(linear.weight.detach())
        if layer.bias is not None:
            layer.bias.copy_(linear.bias.detach())
        return layer

    @property
    def weight(self) -> Float[Tensor, "out dim"]:
        """The matrix in floating point, as it is used in products."""
        return self.values.to(self.scale.dtype) * self.scale[:, None]

    def quantise(self, weight: Float[Tensor, "out dim"]) -> None:
        """Store this matrix: each row as integers from -127 to 127 times the scale of the row."""
        scale = weight.abs().amax(dim=1) / _LARGEST
        safe = scale.masked_fill(scale == 0, 1)  # a row of zeros
        self.values.copy_((weight / safe[:, None]).round())
        self.scale.copy_(scale)

    def forward(self, x: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows out"]:
        """The product with each vector."""
        plain = x.dtype == torch.float32 and not torch.compiler.is_compiling()
        if plain and supports_int8_matvec(self.values, self.scale) and not x.requires_grad:
            rows = x.reshape(-1, x.shape[-1])
            product = native_int8_matvec(rows, self.values, self.scale, self.bias)
            return product.view(*x.shape[:-1], -1)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return nn.functional.linear(x, self.weight.to(x.dtype), bias)

    def beside(self, others: Sequence["QuantisedLinear"]) -> Parts:
        """The matrices, scales and biases of this layer and the others, each concatenated.

        The result is cached until the values of one of the layers change.
        """
        layers = (self, *others)
        versions = tuple((layer.values.data_ptr(), layer.values._version) for layer in layers)
        if self._joined_cache is None or self._joined_cache[0] != versions:
            biases = [layer.bias for layer in layers if layer.bias is not None]
            parts = (
                torch.cat([layer.values for layer in layers]),
                torch.cat([layer.scale for layer in layers]),
                torch.cat(biases) if biases else None,
            )
            self._joined_cache = versions, parts
        return self._joined_cache[1]

    def extra_repr(self) -> str:
        """The widths, and whether there is a bias."""
        outs, dim = self.values.shape
        return f"{dim}, {outs}, bias={self.bias is not None}"
