"""The Transformer: one class for encoder-decoders, decoders, encoders and vision models."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, PredictiveLocal
from regard.errors import InputError, ShapeError
from regard.masks import Mask, causal, padding
from regard.models.checkpoints.parameter_mapping import skip_initialisation
from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.generation import GeneratedSequences, generate
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.heads import ClassificationHead, LanguageHead, Pooler, SpanHead
from regard.models.transformer.initialisation import initialise
from regard.models.transformer.kv_cache import (
    LayerSource,
    SourceCache,
    TransformerState,
    check_new_tokens,
    count_left_padding,
)
from regard.models.transformer.layers import Stack
from regard.models.transformer.native_decoder import (
    NativeDecoderState,
    extract_decoder,
    is_observed,
)
from regard.models.transformer.quantisation import copy_quantised, replace_large_layers

Ids = Int[Tensor, "batch length"]
Real = Bool[Tensor, "batch length"]
Marks = Shaped[Tensor, "batch length"]
Hidden = Float[Tensor, "batch length hidden"]
AnyState = TransformerState | NativeDecoderState


class InputMasks(NamedTuple):
    """Which tokens are real, their types, and a further mask of the self-attention."""

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
            self.decoder.embeddings.tokens = self.encoder.token_embedding()
        self.pooler = Pooler(config) if config.pools else None
        self.head = _make_head(config, vocab, self.decoder or self.encoder, self.pooler)
        initialise(self, config)
        if config.precision == "int8":
            replace_large_layers(self)

    def to_int8(self) -> "Transformer":
        """A copy whose large matrices are 8-bit integers: less memory, and faster on a CPU."""
        if self.config.precision == "int8":
            return self
        with skip_initialisation():
            light = Transformer(self.config, precision="int8")
        light = light.to(next(self.parameters()))
        copy_quantised(self, light)
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
        """The logits; `attention_mask` is 1 for a real token, `mask` restricts the self-attention.

        In an encoder-decoder `mask` is the encoder's.
        """
        hidden, real = self._hidden_states(
            pixel_values if self.config.kind == "vision" else input_ids,
            decoder_input_ids,
            InputMasks(attention_mask, decoder_attention_mask, token_type_ids, mask),
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
        """The input of the output layer, for losses that apply `projection` to it in pieces."""
        hidden, _ = self._hidden_states(input_ids, decoder_input_ids, InputMasks(attention_mask))
        if not isinstance(self.head, LanguageHead):
            raise InputError("features are those of a language model; this Transformer has no head")
        return self.head.features(hidden)

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias that turn features into logits."""
        assert isinstance(self.head, LanguageHead)
        return self.head.output.weight, self.head.output.bias

    def _hidden_states(
        self, source: Tensor | None, decoder_input_ids: Tensor | None, masks: InputMasks
    ) -> tuple[Hidden, Real | None]:
        """The hidden states of the last layer, and which of their tokens are real."""
        if source is None:
            expected = "pixel_values" if self.config.kind == "vision" else "input_ids"
            raise InputError(f"a Transformer of kind {self.config.kind!r} expected {expected}")
        real = _real(masks.attention_mask, source)
        if self.decoder is None:
            hidden = self._encode(source, masks.token_type_ids, real, masks.mask)
        elif self.encoder is None:
            hidden = self._decode(source, real, masks.token_type_ids, mask=masks.mask)
        else:
            if decoder_input_ids is None:
                raise InputError(
                    "an encoder-decoder expected decoder_input_ids too: what it has written so "
                    "far, from the start token on; generate needs none"
                )
            sources = self._project_source(
                self._encode(source, masks.token_type_ids, real, masks.mask), real
            )
            written = _real(masks.decoder_attention_mask, decoder_input_ids)
            hidden, real = self._decode(decoder_input_ids, written, sources=sources), written
        return hidden, real

    def generate(
        self, input_ids: Any, attention_mask: Tensor | None = None, **settings: Any
    ) -> GeneratedSequences:
        """The sequences that the model generates: translations, or the prompts continued.

        The ids are a tensor or a list of sequences; the settings are those of `GenerationSettings`.
        """
        return generate(self, input_ids, attention_mask, **settings)

    @property
    def reads_source(self) -> bool:
        """True if the inputs are a source, such as a sentence to translate, and no beginning."""
        return self.encoder is not None

    @torch.no_grad()
    def begin(self, input_ids: Ids, attention_mask: Marks | None = None) -> AnyState:
        """The state before the first token; the source is encoded here, once for all steps.

        A decoder alone has read nothing yet: the first `step` reads the prompt, padded on its left.
        """
        decoder, real = self._generating_decoder(), _real(attention_mask, input_ids)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                module.pack()
        rows, padding_counts, source = len(input_ids), None, None
        if self.encoder is None:
            padding_counts = count_left_padding(real)
            mechanism = decoder.self_attention_mechanism()
            if padding_counts is not None and isinstance(mechanism, PredictiveLocal):
                raise InputError(
                    f"{self.config.attention!r} counts keys from the first, so that padding there "
                    "would count too; give prompts of one length"
                )
        else:
            sources = self._project_source(self._encode(input_ids, None, real, None), None)
            source = SourceCache(tuple(layer.cache for layer in sources), real)
        state = TransformerState(rows, decoder.empty_caches(rows), padding_counts, source)
        parameters = extract_decoder(decoder, self.head, input_ids)
        return state if parameters is None else NativeDecoderState.from_state(state, parameters)

    @torch.no_grad()
    def step(
        self, state: AnyState, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], AnyState]:
        """The logits after the last of the new tokens, and the state after reading them."""
        check_new_tokens(tokens, state.rows)
        if isinstance(state, NativeDecoderState):
            if not is_observed(tokens):
                return state.step(tokens)
            state = state.to_transformer_state()
        decoder, new = self._generating_decoder(), tokens.shape[1]
        x = decoder.embeddings(tokens, offset=state.length, positions=state.positions(new))
        sources = None if state.source is None else state.source.by_layer()
        hidden, caches = decoder(x, state.mask(new), state.self_caches, sources)
        assert self.head is not None
        return self.head(hidden[:, -1:])[:, 0], state.after_reading(caches, new)

    def _encode(
        self, source: Tensor, types: Ids | None, real: Real | None, mask: Mask | None
    ) -> Hidden:
        assert self.encoder is not None
        x = self.encoder.embeddings(*((source,) if types is None else (source, types)))
        hidden: Tensor = self.encoder(x, _join_masks(mask, real))[0]
        return hidden

    def _decode(
        self,
        ids: Ids,
        real: Real | None,
        types: Ids | None = None,
        *,
        mask: Mask | None = None,
        sources: tuple[LayerSource, ...] | None = None,
    ) -> Hidden:
        assert self.decoder is not None
        # Positions count real tokens only, as they do step by step.
        positions = None if real is None else (real.cumsum(dim=1) - 1).clamp_min(0)
        x = self.decoder.embeddings(ids, types, positions=positions)
        seen = causal() if mask is None else causal() & mask
        hidden: Tensor = self.decoder(x, _join_masks(seen, real), None, sources)[0]
        return hidden

    def _project_source(self, encoded: Hidden, real: Real | None) -> tuple[LayerSource, ...]:
        """The encoder's states, projected to the keys and values of each cross-attention."""
        assert self.decoder is not None
        mask = None if real is None else padding(real)
        attentions = self.decoder.cross_attentions()
        return tuple(LayerSource(attention.project(encoded), mask) for attention in attentions)

    def _generating_decoder(self) -> Stack:
        """The decoder; an InputError for models that cannot generate."""
        if self.decoder is None or self.config.ending != "language":
            raise InputError(
                f"a Transformer of kind {self.config.kind!r} with head {self.config.ending!r} does "
                "not write; generation needs a decoder with head 'language'"
            )
        return self.decoder


def _make_head(
    config: TransformerConfig, vocab: int, stack: Stack | None, pooler: Pooler | None
) -> nn.Module | None:
    """The head that the configuration names, None for hidden states."""
    if config.ending == "language":
        assert stack is not None
        tied = stack.token_embedding().weight if config.tie_embeddings else None
        return LanguageHead(config, vocab, tied)
    if config.ending == "classes":
        return ClassificationHead(config, pooler)
    return SpanHead(config) if config.ending == "spans" else None


def _real(marks: Marks | None, ids: Tensor) -> Real | None:
    """True for real tokens; None if there is no padding."""
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


def _join_masks(mask: Mask | None, real: Real | None) -> Mask | None:
    """A mask that also hides padding."""
    if real is None:
        return mask
    return padding(real) if mask is None else mask & padding(real)
