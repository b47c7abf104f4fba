"""PointerGenerator: the recurrent encoder-decoder that can copy (See, Liu, Manning 2017).

At each step the decoder writes a token of its vocabulary with probability p_gen, or copies a token
of the source with its attention weight. Tokens of the source that the vocabulary lacks have ids of
their own, from `vocab` on (`Tokenizer.with_words_of`), so that unknown words can be copied too:

    source ids      5 12 8003 9       8003 is a word that this text alone adds
    embedded as     5 12    1 9       1 is the unknown token
    probabilities   8004 numbers      the last are of words that can only be copied

With `coverage` the keys carry the sum of the weights that they have had (`attention.coverage`).
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import has_torch_function

from regard.attention import Mechanism
from regard.attention import weights as attention_weights
from regard.attention.copying import copy_probabilities, copy_probability_of
from regard.attention.coverage import coverage_loss, covered_keys
from regard.attention.inputs import Inputs
from regard.attention.terms import Terms
from regard.errors import InputError, ShapeError
from regard.models.checkpoints.registry import register
from regard.models.recurrent.config import RecurrentConfig
from regard.models.recurrent.encoder import Encoded
from regard.models.recurrent.model import Ids, Logits, Marks, Recurrent, RecurrentState, Source
from regard.models.recurrent.source_attention import SourceAttention, SourceMemory

__all__ = ["Mixture", "PointerGenerator", "PointerGeneratorConfig"]

_IMPOSSIBLE = -1e9  # the log-probability of generating a word that can only be copied


@dataclass(frozen=True)
class PointerGeneratorConfig(RecurrentConfig):
    """The settings of a PointerGenerator, by default a smaller one of See et al. 2017.

    `unknown` is the id of the unknown token, as which words of the source alone are embedded.
    `max_positions` is the number of tokens that it is meant to read at once; longer texts are
    summarised in windows.
    """

    style: Literal["bahdanau", "luong"] = "luong"
    input_feeding: bool = True
    coverage: bool = True
    unknown: int = 1
    max_positions: int = 400

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_vocab is not None:
            raise InputError(
                "a pointer-generator copies ids of the source, so that both sides need one "
                f"vocabulary; leave out target_vocab={self.target_vocab}"
            )
        self.refuse_below(1, "max_positions")
        if not 0 <= self.unknown < self.vocab:
            raise InputError(
                f"unknown is the id of a token, 0 to {self.vocab - 1}, got {self.unknown}"
            )


class Mixture(NamedTuple):
    """The two distributions at each step, of generating and of copying, and the gate between them.

    `gate` is the logit of p_gen, and `tokens` are the ids of the source, to which the weights
    belong.
    """

    logits: Logits
    gate: Float[Tensor, "batch length"]
    weights: Float[Tensor, "batch length key"]
    tokens: Int[Tensor, "batch key"]

    def log_probabilities(self, vocab: int) -> Float[Tensor, "batch length extended"]:
        """The log-probability of every token, `vocab` of them with those of the source (eq. 9)."""
        generated = self.logits.softmax(dim=-1) * torch.sigmoid(self.gate)[..., None]
        generated = F.pad(generated, (0, vocab - generated.shape[-1]))
        copied = copy_probabilities(self.weights, self.tokens, vocab)
        return (generated + copied * torch.sigmoid(-self.gate)[..., None]).log()

    def log_probability_of(
        self, labels: Ids, smoothing: float = 0.0
    ) -> Float[Tensor, "batch length"]:
        """The log-probability of one token for each step; it may be a word of the source alone.

        With smoothing, a share of it is the mean log-probability of generating any token.
        """
        known, log_p = labels < self.logits.shape[-1], self.logits.log_softmax(dim=-1)
        generated = log_p.gather(-1, labels.masked_fill(~known, 0)[..., None])[..., 0]
        generated = generated.masked_fill(~known, _IMPOSSIBLE) + F.logsigmoid(self.gate)
        exact = torch.logaddexp(generated, self._log_probability_of_copying(labels))
        if not smoothing:
            return exact
        return (1 - smoothing) * exact + smoothing * log_p.mean(dim=-1)

    def copied_share_of(self, labels: Ids) -> Float[Tensor, "batch length"]:
        """The share of the probability of one token for each step that comes from copying it."""
        return (self._log_probability_of_copying(labels) - self.log_probability_of(labels)).exp()

    def _log_probability_of_copying(self, labels: Ids) -> Float[Tensor, "batch length"]:
        """The log-probability of copying one token for each step."""
        copied = copy_probability_of(labels, self.weights, self.tokens)
        # log 0 has no gradient; a probability below the smallest number is none
        log_copied = copied.clamp_min(torch.finfo(copied.dtype).tiny).log()
        return log_copied + F.logsigmoid(-self.gate)

    @property
    def coverage_loss(self) -> Float[Tensor, "batch length"]:
        """The coverage loss of each step (eq. 12)."""
        return coverage_loss(self.weights)


@dataclass(frozen=True)
class PointerState(RecurrentState):
    """The state of generation: also the ids of the source, and the coverage of its tokens."""

    tokens: Int[Tensor, "row key"] = field(kw_only=True)
    coverage: Float[Tensor, "row key"] = field(kw_only=True)

    def select(self, rows: Int[Tensor, " row"]) -> "PointerState":
        """The state of these batch rows in this order; rows may be repeated."""
        if not len(rows):
            raise InputError("expected at least one row to go on with, got none")
        return PointerState(
            self.hidden.select(rows),
            self.memory.select(rows).repeat(),
            self.length,
            tokens=self.tokens.index_select(0, rows),
            coverage=self.coverage.index_select(0, rows),
        )


@register
class PointerGenerator(Recurrent):
    """A recurrent encoder-decoder that generates or copies each token (See et al. 2017).

    A call returns the log-probabilities after each token of `decoder_input_ids`, over the
    vocabulary and the further ids of the source. Both sides may have ids that the vocabulary lacks.

    >>> import torch
    >>> from regard.models import PointerGenerator
    >>> model = PointerGenerator(vocab=101, d_embed=16, hidden=32)
    >>> model(torch.tensor([[5, 103, 7]]), torch.tensor([[2, 103]])).shape
    torch.Size([1, 2, 104])
    """

    config_class = PointerGeneratorConfig
    config: PointerGeneratorConfig
    reader: SourceAttention

    def __init__(self, config: PointerGeneratorConfig | None = None, **settings: Any) -> None:
        config = (
            PointerGeneratorConfig(**settings) if config is None else config.replace(**settings)
        )
        super().__init__(config)
        if type(self.reader) is not SourceAttention or type(self.reader.mechanism) is not Mechanism:
            raise InputError(
                "a pointer-generator copies by the weights of one head of attention; take "
                f"attention='additive', got {config.attention!r}"
            )
        context_dim = self.reader.dim
        self.coverage: nn.Parameter | None = None
        if config.coverage:
            width = context_dim if self.reader.U is None else len(self.reader.U)
            self.coverage = nn.Parameter(torch.zeros(width))
        # p_gen from the context, the decoder's output and its input (eq. 8)
        self.gate = nn.Linear(context_dim + config.width + config.d_embed, 1)

    def forward(
        self, input_ids: Source, decoder_input_ids: Ids, *, attention_mask: Marks | None = None
    ) -> Logits:
        """The log-probabilities of the next token after each of `decoder_input_ids`."""
        mixture = self.mixture(input_ids, decoder_input_ids, attention_mask=attention_mask)
        return mixture.log_probabilities(self._extended_vocab(input_ids))

    def mixture(
        self,
        input_ids: Source,
        decoder_input_ids: Ids,
        *,
        attention_mask: Marks | None = None,
        covered: bool = True,
    ) -> Mixture:
        """The distributions of generating and copying, when the whole target is known.

        With covered=False coverage is left out of the scores, which is quicker. See et al. train
        so at first; the weight of coverage, which begins at zero, then stays as it is.
        """
        hidden, memory = self._start(self.encode(input_ids, attention_mask))
        w = self.coverage if covered else None
        reading = _Reading(self.reader, memory, w, torch.zeros_like(memory.key[..., 0]))
        embedded = self.words(self._known(decoder_input_ids))
        features, _ = self.decoder(embedded, hidden, reading)
        return self._mix(features, embedded, reading, input_ids)

    def features(self, *inputs: Any, **named: Any) -> Tensor:
        """Raise an InputError: the loss of a pointer-generator needs its weights too."""
        raise InputError("a pointer-generator is trained by task = 'summarisation'")

    def encode(self, source: Source, attention_mask: Marks | None = None) -> Encoded:
        """The encoder's state for each token of the source."""
        return super().encode(self._known(source), attention_mask)

    @torch.no_grad()
    def begin(self, source: Source, attention_mask: Tensor | None = None) -> PointerState:
        """The state before the first token; the source is encoded here, once."""
        hidden, memory = self._start(self.encode(source, attention_mask))
        return PointerState(
            hidden, memory, tokens=source, coverage=torch.zeros_like(memory.key[..., 0])
        )

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, state: PointerState, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row extended"], PointerState]:
        """The log-probabilities after the last of the new tokens, and the state after them."""
        if tokens.dim() != 2 or len(tokens) != state.rows:
            raise ShapeError(
                f"expected new tokens for each of the {state.rows} rows of this state, "
                f"({state.rows}, new), got {tuple(tokens.shape)}"
            )
        reading = _Reading(self.reader, state.memory, self.coverage, state.coverage)
        embedded = self.words(self._known(tokens))
        features, hidden = self.decoder(embedded, state.hidden, reading, state.length)
        mixture = self._mix(features[:, -1:], embedded[:, -1:], reading, state.tokens)
        after = PointerState(
            hidden,
            state.memory,
            state.length + tokens.shape[1],
            tokens=state.tokens,
            coverage=reading.coverage,
        )
        return mixture.log_probabilities(self._extended_vocab(state.tokens))[:, 0], after

    def _mix(
        self, features: Tensor, embedded: Tensor, reading: "_Reading", tokens: Source
    ) -> Mixture:
        """The mixture of the last steps of a reading, as many as there are features."""
        count = features.shape[1]
        contexts = torch.cat(reading.contexts, dim=1)[:, -count:]
        weights = torch.cat(reading.weights, dim=1)[:, -count:]
        inputs = self.dropout(torch.cat([contexts, features, embedded], dim=-1))
        return Mixture(self._logits(features), self.gate(inputs)[..., 0], weights, tokens)

    def _known(self, ids: Ids) -> Ids:
        """The ids with the unknown token in place of those that the vocabulary lacks."""
        return ids.masked_fill(ids >= self.config.vocab, self.config.unknown)

    def _extended_vocab(self, source: Source) -> int:
        """The size of the vocabulary with the further ids of the source."""
        return max(self.config.vocab, int(source.max()) + 1)


class _CoveredStep(Mechanism):
    """The mechanism of one step, whose scores see the coverage of the keys.

    The keys themselves stay the same for all steps, by which watching joins them to one map.
    """

    def __init__(self, own: Mechanism, coverage: Float[Tensor, "row key"], w: Tensor) -> None:
        super().__init__(own.score, own.normalizer, mask=own.mask, bias=own.bias)
        self.coverage, self.w = coverage, w

    def scores(self, inputs: Inputs, terms: Terms, rows: range) -> Tensor:
        """The scores of the queries `rows` (See et al. 2017, eq. 11)."""
        key = covered_keys(inputs.key, self.coverage[:, None], self.w)
        query = inputs.query[:, :, rows.start : rows.stop]
        return terms.apply(self.score(query, key), terms.area(rows, key.shape[2], key.device))

    def factors(self, inputs: Inputs) -> None:
        """None, although the score may be an inner product: its keys have changed."""
        return


class _Reading:
    """Reads the source step by step, and keeps weights, contexts and the coverage."""

    def __init__(
        self,
        attention: SourceAttention,
        memory: SourceMemory,
        w: nn.Parameter | None,
        coverage: Float[Tensor, "row key"],
    ) -> None:
        self.attention, self.memory, self.w, self.coverage = attention, memory, w, coverage
        self.weights = list[Tensor]()
        self.contexts = list[Tensor]()

    def __call__(
        self, query: Float[Tensor, "row query hidden"], position: int
    ) -> Float[Tensor, "row query key_dim"]:
        """The contexts of some queries; with coverage each query is a step of its own."""
        steps = [query] if self.w is None else list(query.split(1, dim=1))
        contexts = [self._read(step, position + number) for number, step in enumerate(steps)]
        self.contexts += contexts
        return contexts[0] if len(contexts) == 1 else torch.cat(contexts, dim=1)

    def _read(self, query: Tensor, position: int) -> Tensor:
        """The contexts of queries that see the same coverage."""
        memory, mechanism = self.memory, self.attention.mechanism
        if self.w is not None:
            mechanism = _CoveredStep(mechanism, self.coverage, self.w)
        weights = attention_weights(query, memory.key, mechanism, memory.mask, offset=position)
        self.coverage = self.coverage + weights.sum(dim=1)
        self.weights.append(weights)
        # While attention is watched, the context comes from the call that watching sees.
        if has_torch_function((query,)):
            watched: Tensor = self.attention(query, memory, position, mechanism)
            return watched
        return weights @ memory.value
