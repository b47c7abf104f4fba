"""RecurrentReader: where in a text the answer to a question stands, by co-attention."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.attention import CoAttention
from regard.errors import InputError
from regard.masks import explicit
from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.config import Config
from regard.models.recurrent.encoder import Encoder
from regard.models.recurrent.pairs import PairedEmbedding, drop_columns

__all__ = ["ReaderConfig", "RecurrentReader"]

_LONGEST_MATCH = 3  # neighbouring tokens that question and text have in common


@dataclass(frozen=True)
class ReaderConfig(Config):
    """The settings of a RecurrentReader; by default a small one.

    `hidden` is the width of both directions of an encoder together, `layers` the number of layers
    after co-attention. `pairs` is the number of pairs of neighbouring tokens with a vector of their
    own; `token_dropout` the share of tokens hidden in training.
    """

    vocab: int = 8000
    d_embed: int = 64
    hidden: int = 128
    layers: int = 1
    cell: Literal["gru", "lstm"] = "lstm"
    dropout: float = 0.2
    pairs: int = 0
    token_dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "vocab", "d_embed", "hidden", "layers")
        self.refuse_below(0, "pairs")
        self.refuse_unless_rates("dropout", "token_dropout")
        if self.hidden % 2:
            raise InputError(
                f"each direction of an encoder has half of hidden, got hidden={self.hidden}; "
                "make it even"
            )

    @property
    def ending(self) -> str:
        """What the model ends in, as a TransformerConfig has it."""
        return "spans"

    @property
    def types(self) -> int:
        """The number of segments: question and text."""
        return 2


@register
class RecurrentReader(Pretrained):
    """A recurrent reader whose text attends to the question and back (Seo et al. 2017).

    Tokens are also told whether they, and their neighbours, occur on the other side, as in Chen et
    al. 2017 (section 3.2, exact match). The input is `<s> question </s> text </s>`; the logits of
    the first token stand for "no answer".

    >>> import torch
    >>> from regard.models import RecurrentReader
    >>> model = RecurrentReader(vocab=101, d_embed=16, hidden=24)
    >>> types = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1]])
    >>> model(torch.randint(5, 101, (1, 9)), token_type_ids=types).shape
    torch.Size([1, 9, 2])
    """

    config_class = ReaderConfig
    config: ReaderConfig

    def __init__(self, config: ReaderConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = ReaderConfig(**settings) if config is None else config.replace(**settings)
        self.config = config
        cell, hidden, dropout = config.cell, config.hidden, config.dropout
        self.words = PairedEmbedding(
            config.vocab,
            config.d_embed,
            config.pairs,
            dropout=dropout,
            token_dropout=config.token_dropout,
        )
        self.encoder = Encoder(
            cell, self.words.dim + _LONGEST_MATCH + 1, hidden // 2, layers=1, dropout=dropout
        )
        self.coattention = CoAttention(hidden)
        self.merge = nn.Linear(4 * hidden + _LONGEST_MATCH, hidden)
        self.modelling = Encoder(cell, hidden, hidden // 2, config.layers, dropout)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * hidden, 2)

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        *,
        attention_mask: Shaped[Tensor, "batch length"] | None = None,
        token_type_ids: Int[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length 2"]:
        """The logits of start and end; `token_type_ids` is 0 for the question, 1 for the text."""
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        real = real.bool()
        asks = real & (token_type_ids == 0)
        # The question stands first, and other columns are masked: training leaves them out, while
        # a trace is easier to read if the columns of its maps are all tokens.
        columns = int(asks.sum(1).max()) if self.training else input_ids.shape[1]
        text, asked = real & ~asks, asks[:, :columns]
        text[:, 0] = True  # the token of "no answer" reads the question as well
        matches = match_lengths(input_ids, text, asked)
        given = real if not bool(real.all()) else None
        words = torch.cat([self.words(input_ids), matches, asks[..., None].float()], dim=-1)
        states = drop_columns(self.encoder(words, given).states, self.dropout)
        merged = self._read_question(states, text, asked, matches)
        modelled = self.modelling(merged, given).states
        both = drop_columns(torch.cat([merged, modelled], dim=-1), self.dropout)
        logits: Tensor = self.output(both)
        return logits

    def _read_question(
        self,
        states: Float[Tensor, "batch length hidden"],
        text: Bool[Tensor, "batch length"],
        asked: Bool[Tensor, "batch question"],
        matches: Float[Tensor, "batch length matches"],
    ) -> Float[Tensor, "batch length hidden"]:
        """Each state together with what it attends to in the question (Seo et al. 2017, eq. 4)."""
        question = states[:, : asked.shape[1]]
        seen = explicit(text[:, :, None] & asked[:, None, :])
        read, summary = self.coattention(states, question, mask=seen).chunk(2, dim=-1)
        joined = torch.cat([states, read, states * read, states * summary, matches], dim=-1)
        return drop_columns(F.relu(self.merge(joined)), self.dropout)


def match_lengths(
    ids: Int[Tensor, "batch length"],
    text: Bool[Tensor, "batch length"],
    asked: Bool[Tensor, "batch question"],
) -> Float[Tensor, "batch length matches"]:
    """1 where a token belongs to 1, 2, ... neighbouring tokens that are on the other side too.

    >>> import torch
    >>> from regard.models.recurrent.reader import match_lengths
    >>> ids = torch.tensor([[7, 8, 9, 8, 7, 8]])
    >>> text = torch.tensor([[False, False, True, True, True, True]])
    >>> match_lengths(ids, text, ~text[:, :2])[0, :, 1].tolist()
    [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    """
    question = ids[:, : asked.shape[1]]
    same = (ids[:, :, None] == question[:, None, :]) & text[:, :, None] & asked[:, None, :]
    found: list[Tensor] = []
    run = covered = same
    for length in range(_LONGEST_MATCH):
        if length:  # pairs of places where a run of one token more begins, then all it covers
            run = run & F.pad(same[:, length:, length:], (0, length, 0, length))
            covered = run
            for shift in range(1, length + 1):
                covered = covered | F.pad(run[:, :-shift, :-shift], (shift, 0, shift, 0))
        in_question = F.pad(covered.any(1), (0, ids.shape[1] - question.shape[1]))
        found.append(covered.any(2) | in_question)
    return torch.stack(found, dim=-1).float()
