"""Embeddings and layers one above the other: an encoder, or a decoder."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import KeyValueCache, Mechanism, MultiHeadAttention
from regard.masks import Mask
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.embeddings import PatchEmbeddings, TokenEmbeddings, make_norm
from regard.models.transformer.layers import Layer
from regard.models.transformer.memory import Growing, Memory

Vectors = Float[Tensor, "batch length hidden"]


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
