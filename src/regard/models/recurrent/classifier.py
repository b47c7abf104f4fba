"""RecurrentClassifier: texts classified by attentive pooling over a recurrent encoder."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.config import Config
from regard.models.recurrent.encoder import Encoder
from regard.models.recurrent.linear_logits import LinearLogits
from regard.models.recurrent.pairs import PairedEmbedding
from regard.models.recurrent.source_attention import make_source_attention

__all__ = ["ClassifierConfig", "RecurrentClassifier"]


@dataclass(frozen=True)
class ClassifierConfig(Config):
    """The settings of a RecurrentClassifier; by default a small one of Yang et al. 2016.

    `hidden` is the width of both directions of the encoder together. `attention` is a name of the
    catalog, or several joined by +: the mechanism of the pooling. `label_names` are the names of
    the `labels` classes, or empty if they have none. `pairs` is the number of pairs of neighbouring
    tokens with a vector of their own; `token_dropout` the share of tokens hidden in training.
    `linear` is the weight of the logits of a linear classifier over tokens and pairs, 0 for none.
    Its pairs are the same, or `linear_pairs` pairs of its own.
    """

    vocab: int = 8000
    d_embed: int = 200
    hidden: int = 100
    layers: int = 1
    cell: Literal["gru", "lstm"] = "gru"
    attention: str = "additive"
    heads: int = 1
    dropout: float = 0.2
    labels: int = 2
    label_names: tuple[str, ...] = ()
    pairs: int = 0
    token_dropout: float = 0.0
    linear: float = 0.0
    linear_pairs: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "vocab", "d_embed", "hidden", "layers", "heads", "labels")
        self.refuse_below(0, "pairs", "linear", "linear_pairs")
        self.refuse_unless_rates("dropout", "token_dropout")
        if self.hidden % 2:
            raise InputError(
                f"each direction of the encoder has half of hidden, got hidden={self.hidden}; "
                "make it even"
            )
        if self.label_names and len(self.label_names) != self.labels:
            raise InputError(
                f"expected a name for each of {self.labels} labels, got {len(self.label_names)} "
                "label_names"
            )

    @property
    def ending(self) -> str:
        """What the model ends in, as a TransformerConfig has it."""
        return "classes"


@register
class RecurrentClassifier(Pretrained):
    """A bidirectional recurrent encoder whose states a learned query pools (Yang et al. 2016).

    This is the word level of their hierarchical network (eq. 1 to 7). The weights of the pooling
    are the attention of the words. With `linear` the logits of a linear classifier are added: in
    training the network learns without them, so that both are judges of their own.

    >>> import torch
    >>> from regard.models import RecurrentClassifier
    >>> model = RecurrentClassifier(vocab=101, d_embed=16, hidden=24, labels=3)
    >>> model(torch.randint(5, 101, (2, 7))).shape
    torch.Size([2, 3])
    """

    config_class = ClassifierConfig
    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = ClassifierConfig(**settings) if config is None else config.replace(**settings)
        self.config = config
        self.words = PairedEmbedding(
            config.vocab,
            config.d_embed,
            config.pairs,
            dropout=config.dropout,
            token_dropout=config.token_dropout,
        )
        self.encoder = Encoder(
            config.cell, self.words.dim, config.hidden // 2, config.layers, config.dropout
        )
        self.query = nn.Parameter(torch.empty(config.hidden))
        self.pooling = make_source_attention(
            config.attention, config.hidden, config.hidden, heads=config.heads
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(self.pooling.dim, config.labels)
        self.linear = (
            LinearLogits(config.vocab, config.pairs, config.labels, config.linear_pairs)
            if config.linear
            else None
        )
        nn.init.normal_(self.query, std=0.02)

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        *,
        attention_mask: Shaped[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch label"]:
        """The logits of the classes; `attention_mask` is 1 for a real token."""
        real = None if attention_mask is None or attention_mask.all() else attention_mask.bool()
        encoded = self.encoder(self.words(input_ids), real)
        query = self.query.expand(len(input_ids), 1, -1)
        memory = self.pooling.memory(encoded.states, encoded.real)
        pooled = self.pooling.read(query, memory)[:, 0]
        logits: Tensor = self.output(self.dropout(pooled))
        if self.linear is not None and not self.training:
            rows = None if self.words.pairs is None else self.words.pairs.rows(input_ids)
            logits = logits + self.config.linear * self.linear(input_ids, rows, real)
        return logits
