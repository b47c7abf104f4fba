"""A linear layer whose matrix is kept in eight bits: a quarter of the memory and of its traffic."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from regard.kernels.decode.int8 import native_int8_matvec, supports_int8_matvec

__all__ = ["QuantisedLinear"]

_MOST = 127

Parts = tuple[Int8[Tensor, "out dim"], Float[Tensor, " out"], Float[Tensor, " out"] | None]


class QuantisedLinear(nn.Module):
    """x W^T + b, each row of W in eight bits with a scale of its own (Dettmers et al. 2022, 2).

    For reading and writing, not for training: there are no parameters. On a CPU the vectors that
    come in are rounded to eight bits too, each by its largest number; elsewhere only W is.

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
        self._together: tuple[tuple[object, ...], Parts] | None = None

    @staticmethod
    def of(linear: nn.Linear) -> "QuantisedLinear":
        """The layer that is nearest to this one."""
        outs, dim = linear.weight.shape
        layer = QuantisedLinear(dim, outs, bias=linear.bias is not None).to(linear.weight)
        layer.quantise(linear.weight.detach())
        if layer.bias is not None:
            layer.bias.copy_(linear.bias.detach())
        return layer

    @property
    def weight(self) -> Float[Tensor, "out dim"]:
        """The matrix as it is multiplied by."""
        return self.values.to(self.scale.dtype) * self.scale[:, None]

    def quantise(self, weight: Float[Tensor, "out dim"]) -> None:
        """Keep this matrix, each row as whole numbers up to 127 times its scale."""
        scale = weight.abs().amax(dim=1) / _MOST
        safe = scale.masked_fill(scale == 0, 1)
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
        """The matrices one under the other, their scales and biases; laid together once."""
        layers = (self, *others)
        known = tuple((each.values.data_ptr(), each.values._version) for each in layers)
        if self._together is None or self._together[0] != known:
            biases = [each.bias for each in layers if each.bias is not None]
            parts = (
                torch.cat([each.values for each in layers]),
                torch.cat([each.scale for each in layers]),
                torch.cat(biases) if biases else None,
            )
            self._together = known, parts
        return self._together[1]

    def extra_repr(self) -> str:
        """The sizes."""
        outs, dim = self.values.shape
        return f"{dim}, {outs}, bias={self.bias is not None}"
