"""The parameters of a decoder's layers, taken out of their modules for the native decoder.

`extract_layers` gives None for a decoder that the native decoder does not know: with attention
other than softmax of scaled dot products, with modules that were replaced, or with hooks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules import module as modules

from regard.attention import MultiHeadAttention, QuantisedLinear, Rotary, ScaledDotScore, Softmax
from regard.attention.projection import Product, Projection, projection
from regard.masks import everything
from regard.models.transformer.layers import Layer, Stack

Vectors = Float[Tensor, "row dim"]


@dataclass(frozen=True)
class NormParameters:
    """LayerNorm, or RMSNorm if `is_rms`, as a plain function of its parameters."""

    weight: Float[Tensor, " dim"]
    bias: Float[Tensor, " dim"] | None
    eps: float | None
    is_rms: bool

    @staticmethod
    def from_module(module: nn.Module) -> "NormParameters":
        """The parameters of an nn.LayerNorm or nn.RMSNorm."""
        assert isinstance(module, nn.LayerNorm | nn.RMSNorm)
        bias = None if isinstance(module, nn.RMSNorm) else module.bias
        return NormParameters(module.weight, bias, module.eps, isinstance(module, nn.RMSNorm))

    def __call__(self, x: Vectors) -> Vectors:
        """The vectors, each normalised."""
        if self.is_rms:
            return torch.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps or 0.0)


@dataclass(frozen=True)
class AttentionParameters:
    """One attention of a layer with its normalisation.

    `project` gives queries, keys and values side by side in self-attention, and queries alone in
    cross-attention, whose keys and values are projected once for all steps.
    """

    project: Projection
    out: Projection
    norm: NormParameters
    heads: int
    key_heads: int
    rotary: Rotary | None


@dataclass(frozen=True)
class LayerParameters:
    """One decoder layer: self-attention, cross-attention or None, and the feed-forward network."""

    self_attention: AttentionParameters
    cross_attention: AttentionParameters | None
    up: Projection
    gate: Projection | None
    down: Projection
    activation: Callable[[Tensor], Tensor]
    norm: NormParameters
    norm_first: bool

    def feed_forward(self, x: Vectors) -> Vectors:
        """The vectors after the feed-forward network, its residual and its normalisation."""
        y = self.norm(x) if self.norm_first else x
        up = self.up(y)
        up = self.activation(up) if self.gate is None else self.activation(self.gate(y)) * up
        x = x + self.down(up)
        return x if self.norm_first else self.norm(x)

    def add_context(self, attention: AttentionParameters, x: Vectors, context: Vectors) -> Vectors:
        """The vectors plus an attention's projected context; normalised unless norm_first."""
        x = x + attention.out(context)
        return x if self.norm_first else attention.norm(x)


def extract_layers(decoder: Stack) -> tuple[LayerParameters, ...] | None:
    """The parameters of all layers; None if one needs its modules to run."""
    if decoder.training or modules._global_forward_hooks or modules._global_forward_pre_hooks:
        return None
    if any(_is_hooked_or_replaced(module) for module in decoder.layers.modules()):
        return None
    layers = [_extract_layer(layer) for layer in decoder.layers if isinstance(layer, Layer)]
    supported = tuple(layer for layer in layers if layer is not None)
    return supported if len(supported) == len(layers) else None


def _is_hooked_or_replaced(module: nn.Module) -> bool:
    """True for a module with forward hooks, and for a subclass in the place of nn.Linear."""
    if module._forward_hooks or module._forward_pre_hooks:
        return True
    return isinstance(module, nn.Linear) and type(module) is not nn.Linear


def _extract_layer(layer: Layer) -> LayerParameters | None:
    """The parameters of one layer; None if its attention is not plain softmax attention."""
    feed, cross, norm = layer.feed_forward, layer.cross, layer.norm_cross
    qkv = _qkv_projection(layer.attention)
    is_plain = _is_softmax_attention(layer.attention) and (
        cross is None or _is_softmax_attention(cross)
    )
    if qkv is None or not is_plain:
        return None
    cross_attention = None
    if cross is not None and norm is not None:
        cross_attention = _extract_attention(cross, _projection(cross.w_q), norm)
    return LayerParameters(
        self_attention=_extract_attention(layer.attention, qkv, layer.norm_attention),
        cross_attention=cross_attention,
        up=_projection(feed.up),
        gate=None if feed.gate is None else _projection(feed.gate),
        down=_projection(feed.down),
        activation=feed.activation,
        norm=NormParameters.from_module(layer.norm_feed_forward),
        norm_first=layer.norm_first,
    )


def _qkv_projection(attention: MultiHeadAttention) -> Projection | None:
    """W_Q, W_K and W_V as one product; None if they cannot be joined."""
    packed = attention._side_by_side()
    if packed is not None:
        return Product.of(*packed)
    return projection(attention.w_q, attention.w_k, attention.w_v)


def _projection(layer: nn.Linear | QuantisedLinear) -> Projection:
    """The product of one linear layer."""
    product = projection(layer)
    assert product is not None
    return product


def _extract_attention(
    attention: MultiHeadAttention, project: Projection, norm: nn.Module
) -> AttentionParameters:
    """The parameters of one attention, given what projects its input."""
    return AttentionParameters(
        project,
        _projection(attention.w_o),
        NormParameters.from_module(norm),
        attention.heads,
        attention.key_heads,
        attention.rotary,
    )


def _is_softmax_attention(attention: MultiHeadAttention) -> bool:
    """True for softmax over scaled dot products of all keys, without bias or mask of its own."""
    mechanism = attention.mechanism
    return (
        type(mechanism.score) is ScaledDotScore
        and type(mechanism.normalizer) is Softmax
        and mechanism.bias is None
        and mechanism.mask == everything()
    )
