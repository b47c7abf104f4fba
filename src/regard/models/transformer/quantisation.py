"""8-bit quantisation: the large matrices of a Transformer as integers with a scale for each row."""

from collections.abc import Iterator

import torch
from torch import nn

from regard.attention import MultiHeadAttention, QuantisedLinear
from regard.models.transformer.heads import LanguageHead
from regard.models.transformer.layers import FeedForward

_OWNERS = (MultiHeadAttention, FeedForward, LanguageHead)


def replace_large_layers(model: nn.Module) -> None:
    """Put an empty QuantisedLinear in the place of each large linear layer."""
    for owner, name, layer in _large_layers(model):
        out_features, in_features = layer.weight.shape
        quantised = QuantisedLinear(in_features, out_features, bias=layer.bias is not None)
        setattr(owner, name, quantised.to(layer.weight))


@torch.no_grad()
def copy_quantised(model: nn.Module, quantised: nn.Module) -> None:
    """Copy all parameters of a model to its quantised copy, large matrices as 8-bit integers."""
    originals = dict(model.named_modules())
    for name, module in quantised.named_modules():
        original = originals.get(name)
        if isinstance(module, QuantisedLinear) and isinstance(original, nn.Linear):
            module.quantise(original.weight)
            if module.bias is not None:
                module.bias.copy_(original.bias)
        elif original is not None:
            _copy_own_tensors(original, module)


def _copy_own_tensors(original: nn.Module, copy: nn.Module) -> None:
    """Copy the parameters and buffers of a module itself, not those of its children."""
    tensors = {**original._parameters, **original._buffers}
    for name, tensor in {**copy._parameters, **copy._buffers}.items():
        source = tensors.get(name)
        if tensor is not None and source is not None:
            tensor.copy_(source)


def _large_layers(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """Every linear layer of attention, feed-forward network and language head, with its parent."""
    for owner in model.modules():
        if isinstance(owner, _OWNERS):
            for name, child in list(owner.named_children()):
                if type(child) is nn.Linear:
                    yield owner, name, child
