"""The recurrent encoder-decoder with attention: the model that learnt to align and translate."""

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
from regard.models.recurrent.decoder import Fixed, Read, decoder
from regard.models.recurrent.encoder import Encoded, Encoder, Words, new_table
from regard.models.recurrent.recurrence import Hidden
from regard.models.recurrent.source_attention import Memory, reader

Ids = Int[Tensor, "batch length"]
Logits = Float[Tensor, "batch length vocab"]


class SampledAttention(NamedTuple):
    """Logits under keys that hard attention chose, and how likely it was to choose them."""

    logits: Logits
    log_probability: Float[Tensor, "batch length"]


@dataclass(frozen=True)
class RecurrentState:
    """What the rows have written so far, and the sentences that they write from."""

    hidden: Hidden
    memory: Memory
    length: int = 0

    @property
    def rows(self) -> int:
        """How many rows write."""
        return self.hidden.state.shape[1]

    def select(self, rows: Int[Tensor, " row"]) -> "RecurrentState":
        """These rows in this order, a row as often as it is named; the others leave."""
        if not len(rows):
            raise InputError("expected at least one row to go on with, got none")
        return RecurrentState(self.hidden.select(rows), self.memory.select(rows), self.length)


class RecurrentWriter(Pretrained, ABC):
    """A recurrent decoder that looks at what an encoder made of the source."""

    config: DecoderConfig
    reads_source = True

    def __init__(self, config: DecoderConfig, key_dim: int) -> None:
        super().__init__()
        self.config = config
        self.reader = None
        if config.attention != "none":
            sizes = {"heads": config.heads, "radius": config.radius}
            self.reader = reader(config.attention, config.hidden, key_dim, **sizes)
        context_dim = key_dim if self.reader is None else self.reader.dim
        self.words = Words(new_table(config.written, config.d_embed), config.dropout)
        self.decoder = decoder(config, key_dim, context_dim)
        self.output = None if config.tie_embeddings else nn.Linear(config.width, config.written)
        self.dropout = nn.Dropout(config.dropout)

    @abstractmethod
    def encode(self, source: Any, attention_mask: Tensor | None) -> Encoded:
        """What the decoder looks at."""

    def generate(
        self, input_ids: Any, attention_mask: Tensor | None = None, **settings: Any
    ) -> GeneratedSequences:
        """What the model writes about its inputs."""
        return generate(self, input_ids, attention_mask, **settings)

    def sample_attention(
        self, source: Any, decoder_input_ids: Ids, *, attention_mask: Tensor | None = None
    ) -> SampledAttention:
        """The logits of `forward` with hard attention, and the log-probability of its choices.

        While training the keys are drawn, and the log-probability is what REINFORCE multiplies
        by the reward (Xu et al. 2015, eq. 12).
        """
        if self.reader is None:
            raise InputError(
                "sample_attention is for hard attention; this model attends to nothing"
            )
        hidden, memory = self._opened(self.encode(source, attention_mask))
        chosen: list[Tensor] = []
        looking = self.reader

        def read(query: Tensor, place: int) -> Tensor:
            choice = looking.choose(query, memory, place)
            chosen.append(choice.log_probability)
            return choice.context

        features, _ = self.decoder(self.words(decoder_input_ids), hidden, read)
        return SampledAttention(self._logits(features), torch.cat(chosen, dim=1))

    @torch.no_grad()
    def begin(self, source: Any, attention_mask: Tensor | None = None) -> RecurrentState:
        """The state before the first token; the source is encoded here, once."""
        return RecurrentState(*self._opened(self.encode(source, attention_mask)))

    @torch.no_grad()
    def step(
        self, state: RecurrentState, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], RecurrentState]:
        """The logits after the last of the new tokens, and the state that has read them."""
        if tokens.dim() != 2 or len(tokens) != state.rows:
            raise ShapeError(
                f"expected new tokens for each of the {state.rows} rows of this state, "
                f"({state.rows}, new), got {tuple(tokens.shape)}"
            )
        read = self._looking(state.memory)
        embedded, place = self.words(tokens), state.length
        features, hidden = self.decoder(embedded, state.hidden, read, place)
        after = RecurrentState(hidden, state.memory, place + tokens.shape[1])
        return self._logits(features[:, -1]), after

    def written(self, encoded: Encoded, decoder_input_ids: Ids) -> Logits:
        """The logits after each token of what is written, given whole."""
        return self._logits(self._features(encoded, decoder_input_ids))

    def _features(
        self, encoded: Encoded, decoder_input_ids: Ids
    ) -> Float[Tensor, "batch length width"]:
        hidden, memory = self._opened(encoded)
        embedded = self.words(decoder_input_ids)
        features: Tensor = self.decoder(embedded, hidden, self._looking(memory))[0]
        return features

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias that turn features into logits."""
        if self.output is None:
            return self.words.table.weight, None
        return self.output.weight, self.output.bias

    def _opened(self, encoded: Encoded) -> tuple[Hidden, Memory]:
        hidden = self.decoder.start(encoded.final)
        if self.reader is None:
            fixed = encoded.final[:, None]
            return hidden, Memory(fixed, fixed)
        return hidden, self.reader.memory(encoded.states, encoded.real)

    def _looking(self, memory: Memory) -> Read | Fixed:
        if self.reader is None:
            return memory.repeated().value
        looking = self.reader
        return lambda query, place: looking.read(query, memory, place)

    def _logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        features = self.dropout(features)
        if self.output is None:
            return F.linear(features, self.words.table.weight)
        logits: Tensor = self.output(features)
        return logits


def real_tokens(marks: Tensor | None, ids: Tensor) -> Bool[Tensor, "batch length"] | None:
    """Which tokens are real; None where all are."""
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
        config = RecurrentConfig(**settings) if config is None else config.replace(**settings)
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
