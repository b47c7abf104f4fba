"""The recurrent encoder-decoder with attention: the model that learnt to align and translate."""

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.checkpoints.registry import register
from regard.models.recurrent.config import RecurrentConfig
from regard.models.recurrent.encoder import Encoded, Encoder
from regard.models.recurrent.words import Words, new_table
from regard.models.recurrent.writing import Ids, Logits, RecurrentWriter, real_tokens

Source = Int[Tensor, "batch key"]
Marks = Int[Tensor, "batch key"] | Bool[Tensor, "batch key"] | Float[Tensor, "batch key"]


@register
class Recurrent(RecurrentWriter):
    """A bidirectional encoder, and a decoder that looks at every state of it at each step.

    Bahdanau et al. 2015 or Luong et al. 2015, with any mechanism of the catalog or none. The
    settings of a RecurrentConfig may be given by name. A call gives the logits after each token
    of `decoder_input_ids`.

    >>> import torch
    >>> from regard.models.recurrent import Recurrent
    >>> model = Recurrent(vocab=101, d_embed=16, hidden=32, attention="additive")
    >>> model(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]])).shape
    torch.Size([1, 2, 101])
    """

    config_class = RecurrentConfig
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig | None = None, **settings: Any) -> None:
        config = RecurrentConfig(**settings) if config is None else config.changed(**settings)
        super().__init__(config, 2 * config.direction)
        layers = config.layers if config.encoder_layers is None else config.encoder_layers
        self.encoder = Encoder(
            config.cell, config.d_embed, config.direction, layers, config.dropout
        )
        table = self.words.table
        if config.target_vocab is not None:
            table = new_table(config.vocab, config.d_embed)
        self.source_words = Words(table, config.dropout)

    def forward(
        self, input_ids: Source, decoder_input_ids: Ids, *, attention_mask: Marks | None = None
    ) -> Logits:
        """The logits of the next token after each of `decoder_input_ids`."""
        return self.written(self.encode(input_ids, attention_mask), decoder_input_ids)

    def features(
        self, input_ids: Source, decoder_input_ids: Ids, *, attention_mask: Marks | None = None
    ) -> Float[Tensor, "batch length width"]:
        """What the output layer reads: a loss may take it through `projection` in pieces."""
        encoded = self.encode(input_ids, attention_mask)
        features: Tensor = self.dropout(self._features(encoded, decoder_input_ids))
        return features

    def encode(self, source: Source, attention_mask: Marks | None = None) -> Encoded:
        """A state for each token of the source."""
        encoded: Encoded = self.encoder(
            self.source_words(source), real_tokens(attention_mask, source)
        )
        return encoded
