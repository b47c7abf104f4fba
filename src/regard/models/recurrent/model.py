"""The recurrent encoder-decoder with attention, and the base class of all recurrent decoders."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.generation import GeneratedSequences, generate
from regard.models.recurrent.config import DecoderConfig, RecurrentConfig
from regard.models.recurrent.decoder import Attend, FixedContext, make_decoder
from regard.models.recurrent.encoder import Encoded, Encoder, TokenEmbedding, make_embedding_table
from regard.models.recurrent.recurrence import Hidden
from regard.models.recurrent.source_attention import SourceMemory, make_source_attention

Ids = Int[Tensor, "batch length"]
Logits = Float[Tensor, "batch length vocab"]


class SampledAttention(NamedTuple):
    """The logits for the keys that hard attention chose, and the log-probability of the choices."""

    logits: Logits
    log_probability: Float[Tensor, "batch length"]


@dataclass(frozen=True)
class RecurrentState:
    """The state of generation after `length` tokens: the recurrent state, and the source."""

    hidden: Hidden
    memory: SourceMemory
    length: int = 0

    @property
    def rows(self) -> int:
        """The number of batch rows."""
        return self.hidden.state.shape[1]

    def select(self, rows: Int[Tensor, " row"]) -> "RecurrentState":
        """The state of these batch rows in this order, for beam search; rows may be repeated."""
        if not len(rows):
            raise InputError("expected at least one row to go on with, got none")
        return RecurrentState(self.hidden.select(rows), self.memory.select(rows), self.length)


class RecurrentDecoderModel(Pretrained, ABC):
    """A model with a recurrent decoder that attends to the states of some encoder.

    The attribute names `words` (target embeddings) and `reader` (attention over the source) are
    part of the checkpoint format.
    """

    config: DecoderConfig
    reads_source = True

    def __init__(self, config: DecoderConfig, key_dim: int) -> None:
        super().__init__()
        self.config = config
        self.reader = None
        if config.attention != "none":
            sizes = {"heads": config.heads, "radius": config.radius}
            self.reader = make_source_attention(config.attention, config.hidden, key_dim, **sizes)
        context_dim = key_dim if self.reader is None else self.reader.dim
        self.words = TokenEmbedding(
            make_embedding_table(config.output_vocab, config.d_embed), config.dropout
        )
        self.decoder = make_decoder(config, key_dim, context_dim)
        self.output = (
            None if config.tie_embeddings else nn.Linear(config.width, config.output_vocab)
        )
        self.dropout = nn.Dropout(config.dropout)

    @abstractmethod
    def encode(self, source: Any, attention_mask: Tensor | None) -> Encoded:
        """The encoder's states, which the decoder attends to."""

    def generate(
        self, input_ids: Any, attention_mask: Tensor | None = None, **settings: Any
    ) -> GeneratedSequences:
        """The sequences that the model generates for a batch of inputs."""
        return generate(self, input_ids, attention_mask, **settings)

    def sample_attention(
        self, source: Any, decoder_input_ids: Ids, *, attention_mask: Tensor | None = None
    ) -> SampledAttention:
        """The logits of `forward` with hard attention, and the log-probability of its choices.

        In training mode the keys are drawn at random, and the log-probability is what REINFORCE
        multiplies by the reward of the choice and of what follows it (Xu et al. 2015, eq. 12).
        """
        if self.reader is None:
            raise InputError(
                "sample_attention is for hard attention; this model attends to nothing"
            )
        hidden, memory = self._start(self.encode(source, attention_mask))
        log_probabilities: list[Tensor] = []
        attention = self.reader

        def attend(query: Tensor, position: int) -> Tensor:
            choice = attention.choose(query, memory, position)
            log_probabilities.append(choice.log_probability)
            return choice.context

        features, _ = self.decoder(self.words(decoder_input_ids), hidden, attend)
        return SampledAttention(self._logits(features), torch.cat(log_probabilities, dim=1))

    @property
    def choices_reach_later_steps(self) -> bool:
        """True if the context of a step changes the decoder's later states.

        It does in the style of Bahdanau and with input feeding. REINFORCE then has to credit a
        choice with the rewards of all later steps.
        """
        return self.config.style == "bahdanau" or self.config.input_feeding

    @torch.no_grad()
    def begin(self, source: Any, attention_mask: Tensor | None = None) -> RecurrentState:
        """The state before the first token; the source is encoded here, once."""
        return RecurrentState(*self._start(self.encode(source, attention_mask)))

    @torch.no_grad()
    def step(
        self, state: RecurrentState, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], RecurrentState]:
        """The logits after the last of the new tokens, and the state after reading them."""
        if tokens.dim() != 2 or len(tokens) != state.rows:
            raise ShapeError(
                f"expected new tokens for each of the {state.rows} rows of this state, "
                f"({state.rows}, new), got {tuple(tokens.shape)}"
            )
        attend = self._attention_over(state.memory)
        embedded, position = self.words(tokens), state.length
        features, hidden = self.decoder(embedded, state.hidden, attend, position)
        after = RecurrentState(hidden, state.memory, position + tokens.shape[1])
        return self._logits(features[:, -1]), after

    def decode(self, encoded: Encoded, decoder_input_ids: Ids) -> Logits:
        """The logits after each target token, when the whole target is known (teacher forcing)."""
        return self._logits(self._features(encoded, decoder_input_ids))

    def _features(
        self, encoded: Encoded, decoder_input_ids: Ids
    ) -> Float[Tensor, "batch length width"]:
        """The decoder's features after each target token, before the output layer."""
        hidden, memory = self._start(encoded)
        embedded = self.words(decoder_input_ids)
        features: Tensor = self.decoder(embedded, hidden, self._attention_over(memory))[0]
        return features

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias that turn features into logits."""
        if self.output is None:
            return self.words.table.weight, None
        return self.output.weight, self.output.bias

    def _start(self, encoded: Encoded) -> tuple[Hidden, SourceMemory]:
        """The recurrent state before the first token, and the source as keys and values."""
        hidden = self.decoder.start(encoded.final)
        if self.reader is None:
            # Without attention the vector of the whole source takes the place of the context.
            fixed = encoded.final[:, None]
            return hidden, SourceMemory(fixed, fixed)
        return hidden, self.reader.memory(encoded.states, encoded.real)

    def _attention_over(self, memory: SourceMemory) -> Attend | FixedContext:
        """The function with which the decoder attends to the source, or the fixed context."""
        if self.reader is None:
            return memory.repeat().value
        attention = self.reader
        return lambda query, position: attention.read(query, memory, position)

    def _logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """The logits of features, by the output matrix or the tied embeddings."""
        features = self.dropout(features)
        if self.output is None:
            return F.linear(features, self.words.table.weight)
        logits: Tensor = self.output(features)
        return logits


def real_tokens(marks: Tensor | None, ids: Tensor) -> Bool[Tensor, "batch length"] | None:
    """True for tokens whose value in an attention_mask is not 0; None if there is no padding."""
    if marks is None:
        return None
    if marks.shape != ids.shape:
        raise ShapeError(
            f"expected an attention_mask of the shape of the ids, {tuple(ids.shape)}, "
            f"got {tuple(marks.shape)}"
        )
    real = marks != 0
    if not real.any(dim=1).all():
        empty = int((~real.any(dim=1)).nonzero()[0])
        raise InputError(f"text {empty} is empty: its attention_mask is 0 throughout")
    return None if bool(real.all()) else real


Source = Int[Tensor, "batch key"]
Marks = Int[Tensor, "batch key"] | Bool[Tensor, "batch key"] | Float[Tensor, "batch key"]


@register
class Recurrent(RecurrentDecoderModel):
    """A bidirectional encoder, and a decoder that attends to its states at each step.

    The model of Bahdanau et al. 2015 or of Luong et al. 2015, with any mechanism of the catalog or
    none. Settings of a RecurrentConfig can be passed as keywords. A call returns the logits after
    each token of `decoder_input_ids`.

    >>> import torch
    >>> from regard.models.recurrent import Recurrent
    >>> model = Recurrent(vocab=101, d_embed=16, hidden=32, attention="additive")
    >>> model(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]])).shape
    torch.Size([1, 2, 101])
    """

    config_class = RecurrentConfig
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig | None = None, **settings: Any) -> None:
        config = RecurrentConfig(**settings) if config is None else config.replace(**settings)
        super().__init__(config, 2 * config.direction)
        layers = config.layers if config.encoder_layers is None else config.encoder_layers
        self.encoder = Encoder(
            config.cell, config.d_embed, config.direction, layers, config.dropout
        )
        table = self.words.table
        if config.target_vocab is not None:
            table = make_embedding_table(config.vocab, config.d_embed)
        self.source_words = TokenEmbedding(table, config.dropout)

    def forward(
        self, input_ids: Source, decoder_input_ids: Ids, *, attention_mask: Marks | None = None
    ) -> Logits:
        """The logits of the next token after each of `decoder_input_ids`."""
        return self.decode(self.encode(input_ids, attention_mask), decoder_input_ids)

    def features(
        self, input_ids: Source, decoder_input_ids: Ids, *, attention_mask: Marks | None = None
    ) -> Float[Tensor, "batch length width"]:
        """The input of the output layer, for losses that apply `projection` piece by piece."""
        encoded = self.encode(input_ids, attention_mask)
        features: Tensor = self.dropout(self._features(encoded, decoder_input_ids))
        return features

    def encode(self, source: Source, attention_mask: Marks | None = None) -> Encoded:
        """The encoder's state for each token of the source."""
        encoded: Encoded = self.encoder(
            self.source_words(source), real_tokens(attention_mask, source)
        )
        return encoded
