"""Matcher: a question against short entries, with attention between their tokens.

It follows the three steps of decomposable attention (Parikh et al. 2016, section 3), over states of
a recurrent encoder as in ESIM (Chen et al. 2017, section 3.1):

1. Attend: each token of the entry attends to the question, and each token of the question to the
   entry. For 多高 (how tall) against 身高 (height), 高 attends to 高, and 身 to 多.
2. Compare: a token of the entry, its context from the question and their product become a vector
   of how well the token is accounted for.
3. Aggregate: each of these vectors gives a number, and their mean is the score of the entry. To it
   the question adds how well each of its tokens found a counterpart, weighted by a gate: 请问
   (please tell me) needs none.

Each text is encoded alone. A question can be matched with thousands of entries whose states were
computed before, all in one product (`match`); `forward` reads single pairs, as a cross-encoder
does, and computes the same numbers, with maps that can be traced.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.attention import DotScore, Mechanism
from regard.errors import ShapeError
from regard.masks import segments
from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.matching.config import MatcherConfig
from regard.models.recurrent.encoder import Encoder, TokenEmbedding, make_embedding_table

__all__ = ["EncodedTexts", "Matcher"]

_SHARPNESS = 4.0  # of untrained attention: with 1 it would begin almost uniform
_LENGTH_STEP = 4  # entries whose lengths differ by less are matched together
_NUMBERS = 1 << 24  # of the largest tensor that `match` makes at once


class EncodedTexts(NamedTuple):
    """What the matcher needs of some texts, one row for each.

    `real` is True for tokens that are not padding, `gate` the weight of a token of a question.
    """

    key: Float[Tensor, "text token dim"]
    value: Float[Tensor, "text token dim"]
    gate: Float[Tensor, "text token"]
    real: Bool[Tensor, "text token"]


@register
class Matcher(Pretrained):
    """How well an entry, such as the relation of a triple, answers a question.

    >>> import torch
    >>> from regard.models.matching import Matcher
    >>> model = Matcher(vocab=101, d_embed=16, hidden=24, d_match=8).eval()
    >>> questions = model.encode(torch.randint(5, 101, (3, 7)))
    >>> entries = model.encode(torch.randint(5, 101, (11, 2)))
    >>> model.match(questions, entries).shape
    torch.Size([3, 11])
    """

    config_class = MatcherConfig
    config: MatcherConfig

    def __init__(self, config: MatcherConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = MatcherConfig(**settings) if config is None else config.replace(**settings)
        self.config = config
        table = make_embedding_table(config.vocab, config.d_embed)
        self.words = TokenEmbedding(table, config.dropout)
        self.encoder = Encoder(
            config.cell, config.d_embed, config.hidden // 2, config.layers, config.dropout
        )
        width = config.d_embed + config.hidden
        self.dropout = nn.Dropout(config.dropout)
        self.key = nn.Linear(width, config.d_match, bias=False)
        self.value = nn.Linear(width, config.d_match)
        self.gate = nn.Linear(width, 1)
        self.attention = Mechanism(DotScore())
        self.compare = nn.Linear(config.d_match, config.d_match)
        self.output = nn.Linear(config.d_match, 1)

    def encode(
        self,
        input_ids: Int[Tensor, "text token"],
        *,
        attention_mask: Shaped[Tensor, "text token"] | None = None,
    ) -> EncodedTexts:
        """The keys, values and gates of some texts; `attention_mask` is 1 for a real token."""
        real = torch.ones_like(input_ids, dtype=torch.bool)
        if attention_mask is not None:
            real = attention_mask.bool()
        embedded = self.words(input_ids)
        states = self.encoder(embedded, None if bool(real.all()) else real).states
        return self._encoded(torch.cat([embedded, states], dim=-1), real)

    def match(
        self, questions: EncodedTexts, entries: EncodedTexts
    ) -> Float[Tensor, "question entry"]:
        """The score of every pair, in blocks of entries of similar length that fit into memory."""
        positions = torch.arange(1, entries.real.shape[1] + 1, device=entries.real.device)
        lengths = (entries.real * positions).amax(1)
        steps = (lengths + _LENGTH_STEP - 1) // _LENGTH_STEP
        blocks, order = list[Tensor](), list[Tensor]()
        for step in steps.unique().tolist():
            rows = (steps == step).nonzero()[:, 0]
            length = int(lengths[rows].max())
            size = len(questions.key) * (length * self.config.d_match + questions.real[0].numel())
            for part in rows.split(max(1, _NUMBERS // max(1, size))):
                shortened = EncodedTexts(*(each[part, :length] for each in entries))
                blocks.append(self._match_block(questions, shortened))
                order.append(part)
        return torch.cat(blocks, dim=1)[:, torch.cat(order).argsort()]

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        *,
        attention_mask: Shaped[Tensor, "batch length"] | None = None,
        token_type_ids: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch 1"]:
        """The score of each pair; tokens of the question have type 0, those of the entry type 1."""
        if token_type_ids is None:
            raise ShapeError("a matcher reads pairs: give token_type_ids, 0 and 1 for each text")
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        asked, entry = (real.bool() & (token_type_ids == side) for side in (0, 1))
        embedded = self.words(input_ids)
        states = self.encoder(embedded, asked).states + self.encoder(embedded, entry).states
        pair = self._encoded(torch.cat([embedded, states], dim=-1), asked | entry)
        side = entry.long().masked_fill(~pair.real, -1)
        mask = segments(1 - entry.long(), side)
        both = torch.cat([pair.value, pair.key], dim=-1)
        contexts = self.attention(pair.key, pair.key, both, mask).split(pair.key.shape[-1], dim=-1)
        compared = self._compare(pair.value, contexts[0])
        found = (pair.key * contexts[1]).sum(-1)
        score: Tensor = self._aggregate(compared, entry) + (found * pair.gate * asked).sum(1)
        return score[:, None]

    def _encoded(
        self, states: Float[Tensor, "text token width"], real: Bool[Tensor, "text token"]
    ) -> EncodedTexts:
        """Keys, values and gates from the embeddings and the states of the encoder."""
        states = self.dropout(states)
        sharp = (_SHARPNESS**2 / self.config.d_match) ** 0.25  # of each of two keys
        gate = self.gate(states)[..., 0].sigmoid() * real
        return EncodedTexts(self.key(states) * sharp, self.value(states), gate, real)

    def _match_block(
        self, questions: EncodedTexts, entries: EncodedTexts
    ) -> Float[Tensor, "question entry"]:
        """The scores of all pairs at once: what `forward` computes, for a grid of pairs."""
        # two products with contiguous results are faster than one and its transposed view
        to_question = torch.einsum("ejk,qik->qeji", entries.key, questions.key)
        to_entry = torch.einsum("qik,ejk->qiej", questions.key, entries.key)
        hidden = torch.finfo(to_entry.dtype).min
        weights = to_question.masked_fill(~questions.real[:, None, None, :], hidden).softmax(-1)
        contexts = torch.einsum("qeji,qik->qejk", weights, questions.value)
        compared = self._compare(entries.value[None], contexts)
        back = to_entry.masked_fill(~entries.real, hidden).softmax(-1)
        found = torch.einsum("qie,qi->qe", (back * to_entry).sum(-1), questions.gate)
        return self._aggregate(compared, entries.real) + found

    def _compare(
        self, value: Float[Tensor, "*#batch token dim"], context: Float[Tensor, "*batch token dim"]
    ) -> Float[Tensor, "*batch token dim"]:
        """Vectors of how well each token is accounted for by its context (eq. 3)."""
        return torch.relu(value + context + self.compare(value * context))

    def _aggregate(
        self, compared: Float[Tensor, "*batch token dim"], entry: Bool[Tensor, "#text token"]
    ) -> Float[Tensor, "*batch"]:
        """The mean number of an entry's tokens (eq. 4 and 5)."""
        numbers = self.output(compared)[..., 0] * entry
        mean: Tensor = numbers.sum(-1) / entry.sum(-1).clamp_min(1)
        return mean
