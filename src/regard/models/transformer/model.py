"""The Transformer: one network for translating, continuing, reading and seeing."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, PredictiveLocal
from regard.errors import InputError, ShapeError
from regard.masks import Mask, causal, padding
from regard.models.checkpoints.parameter_mapping import unfilled
from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.generation import GeneratedSequences, generate
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.heads import ClassificationHead, LanguageHead, Pooler, SpanHead
from regard.models.transformer.initialisation import initialise
from regard.models.transformer.kv_cache import (
    Memory,
    Source,
    TransformerState,
    check_tokens,
    left_padding,
)
from regard.models.transformer.layers import Stack
from regard.models.transformer.native_decoder import FluentState, plan_of, watched
from regard.models.transformer.quantisation import lighten, quantise

Ids = Int[Tensor, "batch length"]
Real = Bool[Tensor, "batch length"]
Marks = Shaped[Tensor, "batch length"]
Hidden = Float[Tensor, "batch length hidden"]
AnyState = TransformerState | FluentState


class Read(NamedTuple):
    """Which tokens are real, their types, and a mask that joins the self-attention."""

    attention_mask: Tensor | None = None
    decoder_attention_mask: Tensor | None = None
    token_type_ids: Tensor | None = None
    mask: Mask | None = None


@register
class Transformer(Pretrained):
    """Attention is all you need (Vaswani et al. 2017), and what grew from it.

    The settings of a TransformerConfig may be given by name; without any it is the base model of
    2017. A call gives logits, and without a head hidden states.

    >>> import torch
    >>> from regard.models import Transformer
    >>> model = Transformer(vocab=101, d_model=64, layers=2, heads=4, d_ff=128, dropout=0.1)
    >>> model(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]])).shape
    torch.Size([1, 2, 101])
    """

    config_class = TransformerConfig
    config: TransformerConfig

    def __init__(self, config: TransformerConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = TransformerConfig(**settings) if config is None else config.replace(**settings)
        self.config = config
        kind, vocab = config.kind, config.target_vocab or config.vocab
        self.encoder = Stack(config) if kind != "decoder" else None
        writes = kind in ("encoder-decoder", "decoder")
        self.decoder = Stack(config, decoder=True) if writes else None
        if self.encoder and self.decoder and config.target_vocab is None:
            self.decoder.embeddings.tokens = self.encoder.tokens()
        self.pooler = Pooler(config) if config.pools else None
        self.head = _head(config, vocab, self.decoder or self.encoder, self.pooler)
        initialise(self, config)
        if config.precision == "int8":
            lighten(self)

    def to_int8(self) -> "Transformer":
        """The same model with its large matrices in eight bits: lighter, faster on a CPU."""
        if self.config.precision == "int8":
            return self
        with unfilled():
            light = Transformer(self.config, precision="int8")
        light = light.to(next(self.parameters()))
        quantise(self, light)
        light.tokenizer, light.generation = self.tokenizer, self.generation
        light.site_names = self.site_names
        return light.eval()

    def forward(
        self,
        input_ids: Ids | None = None,
        decoder_input_ids: Int[Tensor, "batch target"] | None = None,
        *,
        pixel_values: Float[Tensor, "batch channel height width"] | None = None,
        attention_mask: Marks | None = None,
        decoder_attention_mask: Shaped[Tensor, "batch target"] | None = None,
        token_type_ids: Ids | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch ..."]:
        """The logits; `attention_mask` is 1 for a real token, `mask` joins the self-attention.

        In an encoder-decoder `mask` is the encoder's.
        """
        hidden, real = self._read(
            pixel_values if self.config.kind == "vision" else input_ids,
            decoder_input_ids,
            Read(attention_mask, decoder_attention_mask, token_type_ids, mask),
        )
        result: Tensor = hidden if self.head is None else self.head(hidden, real)
        return result

    def features(
        self,
        input_ids: Ids,
        decoder_input_ids: Int[Tensor, "batch target"] | None = None,
        *,
        attention_mask: Marks | None = None,
    ) -> Hidden:
        """What the output layer reads: a loss may take it through `projection` in pieces."""
        hidden, _ = self._read(input_ids, decoder_input_ids, Read(attention_mask))
        if not isinstance(self.head, LanguageHead):
            raise InputError("features are those of a language model; this Transformer has no head")
        return self.head.features(hidden)

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias that turn features into logits."""
        assert isinstance(self.head, LanguageHead)
        return self.head.output.weight, self.head.output.bias

    def _read(
        self, source: Tensor | None, decoder_input_ids: Tensor | None, how: "Read"
    ) -> tuple[Hidden, Real | None]:
        """The hidden states at the end, and which tokens of them are real."""
        if source is None:
            wanted = "pixel_values" if self.config.kind == "vision" else "input_ids"
            raise InputError(f"a Transformer of kind {self.config.kind!r} expected {wanted}")
        real = _real(how.attention_mask, source)
        if self.decoder is None:
            hidden = self._encoded(source, how.token_type_ids, real, how.mask)
        elif self.encoder is None:
            hidden = self._decoded(source, real, how.token_type_ids, mask=how.mask)
        else:
            if decoder_input_ids is None:
                raise InputError(
                    "an encoder-decoder expected decoder_input_ids too: what it has written so "
                    "far, from the start token on; generate needs none"
                )
            memories = self._memories(
                self._encoded(source, how.token_type_ids, real, how.mask), real
            )
            written = _real(how.decoder_attention_mask, decoder_input_ids)
            hidden, real = self._decoded(decoder_input_ids, written, memories=memories), written
        return hidden, real

    def generate(
        self, input_ids: Any, attention_mask: Tensor | None = None, **settings: Any
    ) -> GeneratedSequences:
        """What the model writes: a translation, or the prompt continued.

        The ids are a tensor or a list of sequences; the settings are those of `GenerationSettings`.
        """
        return generate(self, input_ids, attention_mask, **settings)

    @property
    def reads_source(self) -> bool:
        """Whether what it is given is a source to write about, and not the beginning of a text."""
        return self.encoder is not None

    @torch.no_grad()
    def begin(self, input_ids: Ids, attention_mask: Marks | None = None) -> AnyState:
        """The state before the first token is read; the source is encoded here, once.

        A decoder alone has read nothing yet: `step` reads the prompt, padded on its left.
        """
        decoder, real = self._writing(), _real(attention_mask, input_ids)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                module.pack()
        rows, pads, source = len(input_ids), None, None
        if self.encoder is None:
            pads = left_padding(real)
            if pads is not None and isinstance(decoder.mechanism(), PredictiveLocal):
                raise InputError(
                    f"{self.config.attention!r} counts keys from the first, so that padding there "
                    "would count too; give prompts of one length"
                )
        else:
            memories = self._memories(self._encoded(input_ids, None, real, None), None)
            source = Source(tuple(memory.cache for memory in memories), real)
        state = TransformerState(rows, decoder.empty(rows), pads, source)
        plan = plan_of(decoder, self.head, input_ids)
        return state if plan is None else FluentState.of(state, plan)

    @torch.no_grad()
    def step(
        self, state: AnyState, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], AnyState]:
        """The logits after the last of the new tokens, and the state that has read them."""
        check_tokens(tokens, state.rows)
        if isinstance(state, FluentState):
            if not watched(tokens):
                return state.step(tokens)
            state = state.layered()
        decoder, new = self._writing(), tokens.shape[1]
        x = decoder.embeddings(tokens, offset=state.length, places=state.places(new))
        memories = None if state.source is None else state.source.memories()
        hidden, own = decoder(x, state.mask(new), state.own, memories)
        assert self.head is not None
        return self.head(hidden[:, -1:])[:, 0], state.read(own, new)

    def _encoded(
        self, source: Tensor, types: Ids | None, real: Real | None, mask: Mask | None
    ) -> Hidden:
        assert self.encoder is not None
        x = self.encoder.embeddings(*((source,) if types is None else (source, types)))
        hidden: Tensor = self.encoder(x, _joined(mask, real))[0]
        return hidden

    def _decoded(
        self,
        ids: Ids,
        real: Real | None,
        types: Ids | None = None,
        *,
        mask: Mask | None = None,
        memories: tuple[Memory, ...] | None = None,
    ) -> Hidden:
        assert self.decoder is not None
        # positions count the real tokens, as they do step by step
        places = None if real is None else (real.cumsum(dim=1) - 1).clamp_min(0)
        x = self.decoder.embeddings(ids, types, places=places)
        seen = causal() if mask is None else causal() & mask
        hidden: Tensor = self.decoder(x, _joined(seen, real), None, memories)[0]
        return hidden

    def _memories(self, encoded: Hidden, real: Real | None) -> tuple[Memory, ...]:
        assert self.decoder is not None
        mask = None if real is None else padding(real)
        return tuple(Memory(each.project(encoded), mask) for each in self.decoder.crossing())

    def _writing(self) -> Stack:
        if self.decoder is None or self.config.ending != "language":
            raise InputError(
                f"a Transformer of kind {self.config.kind!r} with head {self.config.ending!r} does "
                "not write; generation needs a decoder with head 'language'"
            )
        return self.decoder


def _head(
    config: TransformerConfig, vocab: int, stack: Stack | None, pooler: Pooler | None
) -> nn.Module | None:
    if config.ending == "language":
        assert stack is not None
        tied = stack.tokens().weight if config.tie_embeddings else None
        return LanguageHead(config, vocab, tied)
    if config.ending == "classes":
        return ClassificationHead(config, pooler)
    return SpanHead(config) if config.ending == "spans" else None


def _real(marks: Marks | None, ids: Tensor) -> Real | None:
    """Which tokens are real; None where all are."""
    if marks is None:
        return None
    if marks.shape != ids.shape[:2] or ids.dim() != 2:
        raise ShapeError(
            f"expected an attention_mask of the shape of the ids, {tuple(ids.shape)}, "
            f"got {tuple(marks.shape)}"
        )
    real = marks != 0
    if not torch.compiler.is_compiling() and real.device.type == "cpu" and bool(real.all()):
        return None
    return real


def _joined(mask: Mask | None, real: Real | None) -> Mask | None:
    if real is None:
        return mask
    return padding(real) if mask is None else mask & padding(real)
