"""One layer: self-attention, attention to another stream, feed-forward, each around a residual."""

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
from regard.models.transformer.kv_cache import Growing, Memory

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
    """A layer of an encoder or a decoder; normalised after each part (2017) or before it.

    Normalising first is that of Xiong et al. 2020.
    """

    def __init__(self, config: TransformerConfig, *, decoder: bool) -> None:
        super().__init__()
        crosses = decoder and config.kind == "encoder-decoder"
        own = (decoder and config.decoder_d_ff) or config.d_ff
        self.norm_first = config.norm_first
        self.attention = make_attention(config, decoder=decoder)
        self.norm_attention = make_norm(config)
        self.cross = make_attention(config, decoder=True, cross=True) if crosses else None
        self.norm_cross = make_norm(config) if crosses else None
        self.feed_forward = FeedForward(config, own)
        self.norm_feed_forward = make_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Vectors,
        mask: Mask | None = None,
        past: KeyValueCache | None = None,
        memory: Memory | None = None,
    ) -> tuple[Vectors, KeyValueCache]:
        """The new vectors, and the keys and values of all that was read."""
        offset = 0 if past is None else past.length
        read, past = self.attention.step(self._before(self.norm_attention, x), past, mask)
        x = self._after(self.norm_attention, x, read)
        if self.cross is not None and self.norm_cross is not None and memory is not None:
            read = memory.read(self.cross, self._before(self.norm_cross, x), offset)
            x = self._after(self.norm_cross, x, read)
        read = self.feed_forward(self._before(self.norm_feed_forward, x))
        return self._after(self.norm_feed_forward, x, read), past

    def _before(self, norm: nn.Module, x: Vectors) -> Vectors:
        normed: Tensor = norm(x) if self.norm_first else x
        return normed

    def _after(self, norm: nn.Module, x: Vectors, read: Vectors) -> Vectors:
        added: Tensor = x + (self.dropout(read) if self.training else read)
        return added if self.norm_first else norm(added)


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of that name."""
    return _ACTIVATIONS[name]


def make_attention(
    config: TransformerConfig, *, decoder: bool, cross: bool = False
) -> MultiHeadAttention:
    """Heads that attend by a mechanism of the catalog; an entry that has heads brings its own."""
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
        mechanism=_dropping(mechanism, config),
        rotary=rotary,
        bias=config.bias if config.attention_bias is None else config.attention_bias,
    )


def _cross_name(config: TransformerConfig) -> str:
    """What a decoder reads its source with: a place in one's own text is none in another's."""
    if config.cross_attention is not None:
        return config.cross_attention
    placed = catalog[config.attention].family in ("position", "reach")
    return "scaled-dot" if placed else config.attention


def _dropping(mechanism: nn.Module | None, config: TransformerConfig) -> Mechanism:
    mechanism = mechanism if isinstance(mechanism, Mechanism) else Mechanism()
    if config.attention_dropout and isinstance(mechanism.normalizer, Hard):
        raise InputError(
            f"hard attention has one weight to drop; use attention_dropout=0 with "
            f"{config.attention!r}"
        )
    mechanism.dropout = config.attention_dropout
    return mechanism


class Stack(nn.Module):
    """The layers of one side over its embeddings, and the last normalisation where there is one."""

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
        ends = config.norm_first if config.final_norm is None else config.final_norm
        self.norm = make_norm(config) if ends else None

    def forward(
        self,
        x: Vectors,
        mask: Mask | None = None,
        pasts: Sequence[KeyValueCache] | None = None,
        memories: Sequence[Memory] | None = None,
    ) -> tuple[Vectors, tuple[KeyValueCache, ...]]:
        """The hidden states, and what each layer read."""
        read: list[Any] = []
        for place, layer in enumerate(self.layers):
            past = None if pasts is None else pasts[place]
            memory = None if memories is None else memories[place]
            x, past = layer(x, mask, past, memory)
            read.append(past)
        return x if self.norm is None else self.norm(x), tuple(read)

    def crossing(self) -> list[MultiHeadAttention]:
        """The attention of each layer to another stream."""
        return [each.cross for each in self._each() if each.cross is not None]

    def empty(self, rows: int) -> tuple[Growing, ...]:
        """What each layer has read before the first token: nothing."""
        return tuple(Growing.empty(each.attention, rows) for each in self._each())

    def mechanism(self) -> Mechanism | None:
        """How its layers attend to themselves; None without layers."""
        return next((each.attention.mechanism for each in self._each()), None)

    def tokens(self) -> nn.Embedding:
        """The vectors of the tokens."""
        assert isinstance(self.embeddings, TokenEmbeddings)
        return self.embeddings.tokens

    def _each(self) -> list[Layer]:
        return [each for each in self.layers if isinstance(each, Layer)]
