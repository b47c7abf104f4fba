"""The layers of a Transformer, and the stack of them that is an encoder or a decoder."""

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import (
    Hard,
    KeyValueCache,
    Mechanism,
    MultiHeadAttention,
    Rotary,
    SingleHeadAttention,
    catalog,
)
from regard.errors import InputError
from regard.masks import Mask
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.embeddings import PatchEmbeddings, TokenEmbeddings, make_norm
from regard.models.transformer.kv_cache import GrowingCache, LayerSource

Vectors = Float[Tensor, "batch length hidden"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """W_2 act(W_1 x) (Vaswani et al. 2017, eq. 2), or W_2 (act(W_g x) * W_1 x) (Shazeer 2020)."""

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(config.d_model, width, bias=config.bias) if config.gated else None
        self.up = nn.Linear(config.d_model, width, bias=config.bias)
        self.down = nn.Linear(width, config.d_model, bias=config.bias)
        self.activation = activation(config.activation)
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x: Vectors) -> Vectors:
        """The new vector of each position, from its own alone."""
        up = self.up(x)
        up = self.activation(up) if self.gate is None else self.activation(self.gate(x)) * up
        down: Tensor = self.down(self.dropout(up) if self.training else up)
        return down


class Layer(nn.Module):
    """Self-attention, cross-attention (in a decoder with an encoder) and feed-forward network.

    Each has a residual connection. The normalisation comes after the residual (Vaswani et al. 2017)
    or, with `norm_first`, before each part (Xiong et al. 2020).
    """

    def __init__(self, config: TransformerConfig, *, decoder: bool) -> None:
        super().__init__()
        crosses = decoder and config.kind == "encoder-decoder"
        width = (decoder and config.decoder_d_ff) or config.d_ff
        self.norm_first = config.norm_first
        self.attention = make_attention(config, decoder=decoder)
        self.norm_attention = make_norm(config)
        self.cross = make_attention(config, decoder=True, cross=True) if crosses else None
        self.norm_cross = make_norm(config) if crosses else None
        self.feed_forward = FeedForward(config, width)
        self.norm_feed_forward = make_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Vectors,
        mask: Mask | None = None,
        past: KeyValueCache | None = None,
        source: LayerSource | None = None,
    ) -> tuple[Vectors, KeyValueCache]:
        """The new vectors, and the keys and values of all positions up to the last of x.

        `past` are the keys and values of the positions before x.
        """
        offset = 0 if past is None else past.length
        context, past = self.attention.step(
            self._normalise_input(self.norm_attention, x), past, mask
        )
        x = self._add(self.norm_attention, x, context)
        if self.cross is not None and self.norm_cross is not None and source is not None:
            query = self._normalise_input(self.norm_cross, x)
            x = self._add(self.norm_cross, x, source.attend(self.cross, query, offset))
        update = self.feed_forward(self._normalise_input(self.norm_feed_forward, x))
        return self._add(self.norm_feed_forward, x, update), past

    def _normalise_input(self, norm: nn.Module, x: Vectors) -> Vectors:
        """The input of a part, normalised if normalisation comes first."""
        normalised: Tensor = norm(x) if self.norm_first else x
        return normalised

    def _add(self, norm: nn.Module, x: Vectors, update: Vectors) -> Vectors:
        """The residual sum with dropout, normalised if normalisation comes last."""
        added: Tensor = x + (self.dropout(update) if self.training else update)
        return added if self.norm_first else norm(added)


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of that name."""
    return _ACTIVATIONS[name]


def make_attention(
    config: TransformerConfig, *, decoder: bool, cross: bool = False
) -> MultiHeadAttention:
    """Multi-head attention with the mechanism that the configuration names in the catalog.

    A catalog entry that is itself a module with heads decides the number of heads.
    """
    heads = (decoder and config.decoder_heads) or config.heads
    key_heads, rotary = config.key_heads, None
    if config.positions == "rotary" and not cross:
        rotary = Rotary(config.d_model // heads, config.rotary_base, config.rotary_pairs)
    entry = catalog[_cross_name(config) if cross else config.attention]
    mechanism: nn.Module | None = entry.build(config.d_model, heads=heads)
    if isinstance(mechanism, SingleHeadAttention):
        heads, key_heads, mechanism = 1, None, None
    elif isinstance(mechanism, MultiHeadAttention):
        key_heads, rotary, mechanism = mechanism.key_heads, mechanism.rotary or rotary, None
    else:
        mechanism = entry.build(config.d_model // heads, heads=heads)
    return MultiHeadAttention(
        config.d_model,
        heads,
        key_heads=key_heads,
        mechanism=_with_dropout(mechanism, config),
        rotary=rotary,
        bias=config.bias if config.attention_bias is None else config.attention_bias,
    )


def _cross_name(config: TransformerConfig) -> str:
    """The mechanism of the cross-attention.

    Mechanisms that depend on distances within one text do not fit two texts: for them it is
    scaled-dot attention unless the configuration names another.
    """
    if config.cross_attention is not None:
        return config.cross_attention
    uses_distances = catalog[config.attention].family in ("position", "reach")
    return "scaled-dot" if uses_distances else config.attention


def _with_dropout(mechanism: nn.Module | None, config: TransformerConfig) -> Mechanism:
    """The mechanism, softmax of dot products for None, with the configuration's dropout."""
    mechanism = mechanism if isinstance(mechanism, Mechanism) else Mechanism()
    if config.attention_dropout and isinstance(mechanism.normalizer, Hard):
        raise InputError(
            f"hard attention has one weight to drop; use attention_dropout=0 with "
            f"{config.attention!r}"
        )
    mechanism.dropout = config.attention_dropout
    return mechanism


class Stack(nn.Module):
    """An encoder or a decoder: embeddings, layers, and a final normalisation where there is one."""

    def __init__(self, config: TransformerConfig, *, decoder: bool = False) -> None:
        super().__init__()
        vocab = (decoder and config.target_vocab) or config.vocab
        vision = config.kind == "vision"
        self.embeddings: PatchEmbeddings | TokenEmbeddings = (
            PatchEmbeddings(config) if vision else TokenEmbeddings(config, vocab)
        )
        count = config.layers
        if decoder and config.decoder_layers is not None:
            count = config.decoder_layers
        self.layers = nn.ModuleList(Layer(config, decoder=decoder) for _ in range(count))
        has_norm = config.norm_first if config.final_norm is None else config.final_norm
        self.norm = make_norm(config) if has_norm else None

    def forward(
        self,
        x: Vectors,
        mask: Mask | None = None,
        pasts: Sequence[KeyValueCache] | None = None,
        sources: Sequence[LayerSource] | None = None,
    ) -> tuple[Vectors, tuple[KeyValueCache, ...]]:
        """The hidden states, and the key/value cache of each layer with x included."""
        caches: list[Any] = []
        for number, layer in enumerate(self.layers):
            past = None if pasts is None else pasts[number]
            source = None if sources is None else sources[number]
            x, cache = layer(x, mask, past, source)
            caches.append(cache)
        return x if self.norm is None else self.norm(x), tuple(caches)

    def cross_attentions(self) -> list[MultiHeadAttention]:
        """The cross-attention of each layer, an empty list in an encoder."""
        return [layer.cross for layer in self._layers() if layer.cross is not None]

    def empty_caches(self, rows: int) -> tuple[GrowingCache, ...]:
        """The key/value cache of each layer before the first token."""
        return tuple(GrowingCache.empty(layer.attention, rows) for layer in self._layers())

    def self_attention_mechanism(self) -> Mechanism | None:
        """The mechanism of the self-attention, the same in all layers; None without layers."""
        return next((layer.attention.mechanism for layer in self._layers()), None)

    def token_embedding(self) -> nn.Embedding:
        """The table of token vectors."""
        assert isinstance(self.embeddings, TokenEmbeddings)
        return self.embeddings.tokens

    def _layers(self) -> list[Layer]:
        """The layers with their type, for mypy."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]
