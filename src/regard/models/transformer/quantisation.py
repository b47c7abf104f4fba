"""Matrices in eight bits: which layers of a Transformer are lightened, and with what numbers."""

from collections.abc import Iterator

import torch
from torch import nn

from regard.attention import MultiHeadAttention, QuantisedLinear
from regard.models.transformer.heads import LanguageHead
from regard.models.transformer.layers import FeedForward

_OWNERS = (MultiHeadAttention, FeedForward, LanguageHead)


def lighten(model: nn.Module) -> None:
    """Put layers of eight bits, as yet empty, in the place of the large matrices."""
    for owner, name, layer in _large(model):
        outs, dim = layer.weight.shape
        light = QuantisedLinear(dim, outs, bias=layer.bias is not None)
        setattr(owner, name, light.to(layer.weight))


@torch.no_grad()
def quantise(heavy: nn.Module, light: nn.Module) -> None:
    """Fill a lightened model with the numbers of the one that it was made of."""
    numbers = dict(heavy.named_modules())
    for name, module in light.named_modules():
        other = numbers.get(name)
        if isinstance(module, QuantisedLinear) and isinstance(other, nn.Linear):
            module.quantise(other.weight)
            if module.bias is not None:
                module.bias.copy_(other.bias)
        elif other is not None:
            _copy_own(other, module)


def _copy_own(heavy: nn.Module, light: nn.Module) -> None:
    """The tensors of a module itself, not those of its parts."""
    known = {**heavy._parameters, **heavy._buffers}
    for name, tensor in {**light._parameters, **light._buffers}.items():
        source = known.get(name)
        if tensor is not None and source is not None:
            tensor.copy_(source)


def _large(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for owner in model.modules():
        if isinstance(owner, _OWNERS):
            for name, child in list(owner.named_children()):
                if type(child) is nn.Linear:
                    yield owner, name, child
