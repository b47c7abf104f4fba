"""Decoding without modules: one step of a plain decoder as a short list of products.

With one token in each row, calling modules and their checks takes longer than the products. So
where a decoder is plain (see `layer_parameters.extract_layers`), `Transformer.begin` gives a
`NativeDecoderState` and each step works on the parameters directly: in one C++ call
(`native_step.NativeStep`) if there are few rows, else layer by layer in torch with the attention
in C++, else all in torch. The results are those of the layers. A decoder that is observed by
`regard.watch`, by hooks or by torch.compile is run by its layers instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import has_torch_function

from regard.attention.positions import RotaryTable
from regard.attention.projection import Projection, projection
from regard.kernels.decode import has_plain_memory
from regard.models.transformer.heads import LanguageHead
from regard.models.transformer.kv_cache import (
    GrowingCache,
    SourceCache,
    TransformerState,
    keeps_all_rows,
    positions_after_padding,
)
from regard.models.transformer.layer_parameters import (
    AttentionParameters,
    LayerParameters,
    NormParameters,
    Vectors,
    extract_layers,
)
from regard.models.transformer.layers import Stack
from regard.models.transformer.native_step import NativeStep, StepCache

Rows = Int[Tensor, " row"]
MaskBias = Float[Tensor, "row 1 new key"]
Cache = Float[Tensor, "layer capacity cache_row side head dim"]
KeysOrValues = Float[Tensor, "row head key dim"]

_FIRST_CAPACITY = 32  # positions


@dataclass(frozen=True)
class DecoderParameters:
    """The parameters of a decoder and its head; `like` has the dtype and device of all of them."""

    embeddings: Callable[..., Tensor]
    layers: tuple[LayerParameters, ...]
    norm: NormParameters | None
    output: Projection
    like: Tensor
    native_step: NativeStep | None

    def rotary_table(self, start: int, stop: int, like: Tensor) -> RotaryTable | None:
        """The rotation of positions start .. stop - 1; None without rotary positions."""
        rotary = self.layers[0].self_attention.rotary
        return None if rotary is None else rotary.table(start, stop, like)


def is_observed(tokens: Tensor) -> bool:
    """True inside torch.compile, and if a tensor subclass or mode follows these tokens."""
    if torch.compiler.is_compiling() or has_torch_function((tokens,)):
        return True
    return not has_plain_memory(tokens)


def extract_decoder(
    decoder: Stack, head: nn.Module | None, tokens: Tensor
) -> DecoderParameters | None:
    """The parameters for decoding without modules; None where the modules must be run."""
    if is_observed(tokens) or not isinstance(head, LanguageHead) or head.transform is not None:
        return None
    has_hooks = any(part._forward_hooks or part._forward_pre_hooks for part in head.modules())
    output = None if has_hooks else projection(head.output)
    layers = None if output is None else extract_layers(decoder)
    if output is None or not layers:
        return None
    norm = None if decoder.norm is None else NormParameters.from_module(decoder.norm)
    native_step = NativeStep.build_if_supported(layers, norm, output)
    like = layers[0].norm.weight
    return DecoderParameters(decoder.embeddings, layers, norm, output, like, native_step)


@dataclass(frozen=True)
class NativeDecoderState:
    """The key/value cache of all layers in one tensor: (layer, position, row, side, head, dim).

    `cache_rows[r, p]` is the row of the cache in which batch row r finds position p. When beams
    change places, split or end, only this table is reordered: no key and no value is copied.
    `source_bias` is -inf where the source is padding. Without the C++ library the same steps run in
    torch operations.
    """

    parameters: DecoderParameters
    cache: Cache
    cache_rows: Int[Tensor, "row capacity"]
    left_padding: Rows | None = None
    source: SourceCache | None = None
    source_bias: Float[Tensor, "sentence 1 1 key"] | None = None
    length: int = 0

    @staticmethod
    def from_state(state: TransformerState, parameters: DecoderParameters) -> "NativeDecoderState":
        """The state before the first token, with the source and padding of the other state."""
        like, attention = parameters.like, parameters.layers[0].self_attention
        key_heads = attention.key_heads
        dim = attention.project.sizes[0] // (attention.heads + 2 * key_heads)
        cache = like.new_empty(len(parameters.layers), 0, state.rows, 2, key_heads, dim)
        cache_rows = torch.empty(state.rows, 0, dtype=torch.long, device=like.device)
        bias = _source_bias(state.source, like)
        return NativeDecoderState(
            parameters, cache, cache_rows, state.left_padding, state.source, bias
        )

    @property
    def rows(self) -> int:
        """The number of batch rows."""
        return self.cache_rows.shape[0]

    def select(self, rows: Rows) -> "NativeDecoderState":
        """The state of these rows in this order; a row may be repeated, and others are dropped."""
        if keeps_all_rows(rows, self.rows):
            return self
        source = None if self.source is None else self.source.select(rows)
        return replace(
            self,
            cache_rows=self.cache_rows[rows],
            left_padding=None if self.left_padding is None else self.left_padding[rows],
            source=source,
            source_bias=_source_bias(source, self.cache),
        )

    def to_transformer_state(self) -> TransformerState:
        """The same state as the layers keep it, for steps that must be run by the modules."""
        sides = (self.keys_and_values(layer) for layer in range(self.cache.shape[0]))
        caches = tuple(GrowingCache(key, value, (key, value)) for key, value in sides)
        return TransformerState(self.rows, caches, self.left_padding, self.source, self.length)

    def keys_and_values(self, layer: int) -> tuple[KeysOrValues, KeysOrValues]:
        """The keys and the values of one layer that each batch row has read."""
        positions = torch.arange(self.length, device=self.cache_rows.device)
        read = self.cache[layer, positions, self.cache_rows[:, : self.length]]
        key, value = read.permute(2, 0, 3, 1, 4).unbind(0)
        return key, value

    def step(
        self, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], "NativeDecoderState"]:
        """The logits after the last of the new tokens, and the state after reading them."""
        parameters, new = self.parameters, tokens.shape[1]
        native = parameters.native_step if new == 1 else None
        state = self._with_room(new)
        positions = positions_after_padding(self.left_padding, self.length, new)
        x = parameters.embeddings(tokens, offset=self.length, positions=positions).flatten(0, 1)
        rotary = parameters.rotary_table(self.length, state.length, x)
        if native is not None:
            native.set_source(self.source, self.source_bias)
            native.set_cache(
                StepCache(state.cache, state.cache_rows, self.length, self.left_padding, rotary)
            )
            if native.supports_rows(self.rows):
                return native(x), state
        runner = _LayerRunner(state, new, rotary, native)
        for number, layer in enumerate(parameters.layers):
            x = runner.run(layer, number, x)
        x = x.view(self.rows, new, -1)[:, -1]
        norm = parameters.norm
        return parameters.output(x if norm is None else norm(x)), state

    def _with_room(self, new: int) -> "NativeDecoderState":
        """The state with `new` more positions to write to, each row in its own cache row."""
        start, stop = self.length, self.length + new
        layers, capacity, lines, *rest = self.cache.shape
        cache, cache_rows = self.cache, self.cache_rows
        if stop > capacity or self.rows > lines:
            if stop > capacity:
                capacity = max(_FIRST_CAPACITY, stop, 2 * capacity)
            cache = self.cache.new_empty(layers, capacity, max(lines, self.rows), *rest)
            cache[:, :start, :lines] = self.cache[:, :start]
        if cache.shape[1] > cache_rows.shape[1]:
            cache_rows = F.pad(cache_rows, (0, cache.shape[1] - cache_rows.shape[1]))
        cache_rows[:, start:stop] = torch.arange(self.rows, device=cache_rows.device)[:, None]
        return replace(self, cache=cache, cache_rows=cache_rows, length=stop)


class _LayerRunner:
    """Runs one step layer by layer in torch, the attention in C++ where `native` is given.

    `state` already has room for the `new` tokens of each row.
    """

    def __init__(
        self,
        state: NativeDecoderState,
        new: int,
        rotary: RotaryTable | None,
        native: NativeStep | None,
    ) -> None:
        self.state, self.new, self.start = state, new, state.length - new
        self.rotary, self.native, self.mask_bias = rotary, native, self._mask_bias()

    def run(self, layer: LayerParameters, number: int, x: Vectors) -> Vectors:
        """The vectors after one layer."""
        own, cross = layer.self_attention, layer.cross_attention
        context = self._self_attention(own, number, own.norm(x) if layer.norm_first else x)
        x = layer.add_context(own, x, context)
        if cross is not None:
            context = self._cross_attention(cross, number, cross.norm(x) if layer.norm_first else x)
            x = layer.add_context(cross, x, context)
        return layer.feed_forward(x)

    def _self_attention(self, attention: AttentionParameters, layer: int, x: Vectors) -> Vectors:
        """The context over the cache, to which the new keys and values are added."""
        rows, new, heads = self.state.rows, self.new, attention.heads
        key_heads = attention.key_heads
        qkv = attention.project(x)
        if self.native is not None:
            return self.native.self_attention(layer, qkv)
        qkv = qkv.view(rows, new, heads + 2 * key_heads, -1)
        if self.rotary is not None:
            queries_and_keys = qkv.narrow(2, 0, heads + key_heads)
            queries_and_keys.copy_(self.rotary.rotate(queries_and_keys))
        keys_and_values = qkv.narrow(2, heads, 2 * key_heads).view(rows, new, 2, key_heads, -1)
        slots = self.state.cache[layer, self.start : self.state.length, :rows]
        slots.copy_(keys_and_values.transpose(0, 1))
        key, value = self.state.keys_and_values(layer)
        context = F.scaled_dot_product_attention(
            qkv.narrow(2, 0, heads).transpose(1, 2),
            key,
            value,
            self.mask_bias,
            is_causal=self.mask_bias is None and new > 1,
            enable_gqa=heads != key_heads,
        )
        return context.transpose(1, 2).reshape(rows * new, -1)

    def _cross_attention(self, attention: AttentionParameters, layer: int, x: Vectors) -> Vectors:
        """The context over the source; the queries of all beams of an input are read together."""
        source, query = self.state.source, attention.project(x)
        assert source is not None
        if self.native is not None:
            return self.native.cross_attention(layer, query)
        cache, per_input = source.caches[layer], source.rows_per_input * self.new
        query = query.view(-1, per_input, attention.heads, cache.key.shape[3])
        context = F.scaled_dot_product_attention(
            query.transpose(1, 2),
            cache.key,
            cache.value,
            self.state.source_bias,
            enable_gqa=attention.heads != attention.key_heads,
        )
        return context.transpose(1, 2).reshape(x.shape)

    def _mask_bias(self) -> MaskBias | None:
        """-inf where a new token must not look: at padding and at later tokens.

        None where a causal mask, or no mask for a single token, is enough.
        """
        left_padding, stop = self.state.left_padding, self.state.length
        if left_padding is None and (self.new == 1 or self.start == 0):
            return None
        cache = self.state.cache
        slots = torch.arange(stop, device=cache.device)
        hidden = slots > slots[self.start :, None]
        if left_padding is not None:
            hidden = hidden | (slots < left_padding[:, None])[:, None, None]
            # A padding token sees itself: the softmax of a row without any key would be NaN.
            hidden = hidden & (slots != slots[self.start :, None])
        zeros = torch.zeros(hidden.shape, dtype=cache.dtype, device=cache.device)
        return zeros.masked_fill_(hidden, -torch.inf).view(-1, 1, self.new, stop)


def _source_bias(
    source: SourceCache | None, like: Tensor
) -> Float[Tensor, "sentence 1 1 key"] | None:
    """-inf where the source is padding, 0 elsewhere; None if there is no padding."""
    if source is None or source.real is None:
        return None
    zeros = torch.zeros(source.real.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~source.real, -torch.inf)[:, None, None]
