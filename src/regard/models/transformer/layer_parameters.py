"""The layers of a plain decoder taken apart: what each multiplies by, and how it normalises."""

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
class Norm:
    """A normalisation without its module: of a layer, or by the root of the mean square."""

    weight: Float[Tensor, " dim"]
    bias: Float[Tensor, " dim"] | None
    eps: float | None
    root: bool

    @staticmethod
    def of(module: nn.Module) -> "Norm":
        """That of a module."""
        assert isinstance(module, nn.LayerNorm | nn.RMSNorm)
        bias = None if isinstance(module, nn.RMSNorm) else module.bias
        return Norm(module.weight, bias, module.eps, isinstance(module, nn.RMSNorm))

    def __call__(self, x: Vectors) -> Vectors:
        """The vectors, each by itself."""
        if self.root:
            return torch.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps or 0.0)


@dataclass(frozen=True)
class Reading:
    """One attention: what makes its queries, and in its own text keys and values; what follows."""

    project: Projection
    out: Projection
    norm: Norm
    heads: int
    key_heads: int
    rotary: Rotary | None


@dataclass(frozen=True)
class Part:
    """One layer: what it reads of its own text and of the source, and the feed-forward after."""

    own: Reading
    other: Reading | None
    up: Projection
    gate: Projection | None
    down: Projection
    activation: Callable[[Tensor], Tensor]
    norm: Norm
    norm_first: bool

    def feed(self, x: Vectors) -> Vectors:
        """The vectors after the feed-forward."""
        y = self.norm(x) if self.norm_first else x
        up = self.up(y)
        up = self.activation(up) if self.gate is None else self.activation(self.gate(y)) * up
        x = x + self.down(up)
        return x if self.norm_first else self.norm(x)

    def add(self, reading: Reading, x: Vectors, context: Vectors) -> Vectors:
        """The vectors with what was read."""
        x = x + reading.out(context)
        return x if self.norm_first else reading.norm(x)


def parts_of(decoder: Stack) -> tuple[Part, ...] | None:
    """The layers taken apart; None if one is not plain, or somebody listens to it."""
    if decoder.training or modules._global_forward_hooks or modules._global_forward_pre_hooks:
        return None
    if any(_differs(each) for each in decoder.layers.modules()):
        return None
    parts = [_part(layer) for layer in decoder.layers if isinstance(layer, Layer)]
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def _differs(module: nn.Module) -> bool:
    """Whether somebody listens to a module, or has put another kind in its place."""
    if module._forward_hooks or module._forward_pre_hooks:
        return True
    return isinstance(module, nn.Linear) and type(module) is not nn.Linear


def _part(layer: Layer) -> Part | None:
    feed, cross, norm = layer.feed_forward, layer.cross, layer.norm_cross
    joined = _joined(layer.attention)
    if joined is None or not (_is_plain(layer.attention) and (cross is None or _is_plain(cross))):
        return None
    other = None
    if cross is not None and norm is not None:
        other = _reading(cross, _product(cross.w_q), norm)
    return Part(
        own=_reading(layer.attention, joined, layer.norm_attention),
        other=other,
        up=_product(feed.up),
        gate=None if feed.gate is None else _product(feed.gate),
        down=_product(feed.down),
        activation=feed.activation,
        norm=Norm.of(layer.norm_feed_forward),
        norm_first=layer.norm_first,
    )


def _joined(attention: MultiHeadAttention) -> Projection | None:
    """W_Q, W_K, W_V as one product."""
    packed = attention._side_by_side()
    if packed is not None:
        return Product.of(*packed)
    return projection(attention.w_q, attention.w_k, attention.w_v)


def _product(layer: nn.Linear | QuantisedLinear) -> Projection:
    found = projection(layer)
    assert found is not None
    return found


def _reading(attention: MultiHeadAttention, project: Projection, norm: nn.Module) -> Reading:
    return Reading(
        project,
        _product(attention.w_o),
        Norm.of(norm),
        attention.heads,
        attention.key_heads,
        attention.rotary,
    )


def _is_plain(attention: MultiHeadAttention) -> bool:
    """Whether it is softmax over scaled dot products, of all keys, and nothing else."""
    mechanism = attention.mechanism
    return (
        type(mechanism.score) is ScaledDotScore
        and type(mechanism.normalizer) is Softmax
        and mechanism.bias is None
        and mechanism.mask == everything()
    )
