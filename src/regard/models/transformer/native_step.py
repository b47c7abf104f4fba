"""One decoding step in C++: all layers of a decoder for one new token in each row.

The parameters are described to the kernel once, as pointers and sizes; before each step it also
gets the addresses of the cache and the source. See `regard.kernels.decode.decoder_step` for the
structures.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.positions import RotaryTable
from regard.attention.projection import Product, Projection, QuantisedProduct
from regard.kernels.decode.decoder_step import (
    DecoderLayer,
    DecoderStep,
    Linear,
    Norm,
    load_decoder_step,
    load_layer_attention,
)
from regard.kernels.decode.matvec import MAX_MATVEC_ROWS
from regard.models.transformer.kv_cache import SourceCache
from regard.models.transformer.layer_parameters import LayerParameters, NormParameters, Vectors
from regard.models.transformer.layers import activation

QueryKeyValue = Float[Tensor, "row joined"]

# The kernel knows activations by these numbers.
_ACTIVATIONS = {activation(name): n for n, name in enumerate(("relu", "gelu", "gelu-tanh", "silu"))}


@dataclass(frozen=True)
class StepCache:
    """The key/value cache as one step reads it; the new token stands at `position`.

    At position p, batch row r reads row `cache_rows[r, p]` of the cache.
    """

    cache: Float[Tensor, "layer position cache_row side head dim"]
    cache_rows: Int[Tensor, "row position"]
    position: int
    left_padding: Int[Tensor, " row"] | None
    rotary: RotaryTable | None


class NativeStep:
    """All layers of a decoder and its output matrix in C++, in float32 on a CPU."""

    def __init__(
        self,
        layers: tuple[LayerParameters, ...],
        norm: NormParameters | None,
        output: Projection,
    ) -> None:
        # C++ holds pointers to these tensors: a reference here keeps them alive.
        self.layers, self.norm, self.output = layers, norm, output
        self.native_layers = (DecoderLayer * len(layers))(*map(_native_layer, layers))
        attention, first = layers[0].self_attention, layers[0]
        qkv_width = attention.project.sizes[0]
        self.step = DecoderStep(
            final_norm=_native_norm(norm),
            output=_native_linear(output),
            layer_count=len(layers),
            dim=output.sizes[1],
            max_width=max(qkv_width, first.up.sizes[0]),
            heads=attention.heads,
            key_heads=attention.key_heads,
            head_dim=qkv_width // (attention.heads + 2 * attention.key_heads),
            norm_first=int(first.norm_first),
            activation=_ACTIVATIONS[first.activation],
            rotary_halves=int(attention.rotary is not None and attention.rotary.pairs == "halves"),
        )
        self.step.layers = ctypes.addressof(self.native_layers)
        self.scratch = torch.empty(0)
        self.cache: StepCache | None = None
        self.source: SourceCache | None = None
        self.source_bias: Tensor | None = None

    @staticmethod
    def build_if_supported(
        layers: tuple[LayerParameters, ...], norm: NormParameters | None, output: Projection
    ) -> "NativeStep | None":
        """The step of these layers; None without the library, or for other dtypes and devices."""
        known = load_layer_attention() is not None and all(
            layer.activation in _ACTIVATIONS for layer in layers
        )
        native = known and all(product.native for layer in layers for product in _products(layer))
        return NativeStep(layers, norm, output) if native and output.native else None

    def supports_rows(self, rows: int) -> bool:
        """True if the products of this number of rows are faster here than in torch.

        Matrices of 8-bit integers are always multiplied here.
        """
        return rows <= MAX_MATVEC_ROWS or isinstance(self.output, QuantisedProduct)

    def set_cache(self, cache: StepCache) -> None:
        """Read and extend this cache from now on."""
        step, self.cache = self.step, cache
        step.rows, step.position = len(cache.cache_rows), cache.position
        step.threads = torch.get_num_threads()
        step.cache, step.cache_rows = cache.cache.data_ptr(), cache.cache_rows.data_ptr()
        step.cache_strides[:] = cache.cache.stride()[:4]
        step.cache_rows_stride = cache.cache_rows.stride(0)
        step.padding = None if cache.left_padding is None else cache.left_padding.data_ptr()
        if cache.rotary is not None:
            step.cos, step.sin = cache.rotary.cos.data_ptr(), cache.rotary.sin.data_ptr()
        step.scratch = self._scratch_pointer()

    def set_source(self, source: SourceCache | None, source_bias: Tensor | None) -> None:
        """Read this source from now on; `source_bias` is added to its attention scores."""
        if source is None or source is self.source:
            return
        for layer, cache in zip(self.native_layers, source.caches, strict=True):
            layer.source_key, layer.source_value = cache.key.data_ptr(), cache.value.data_ptr()
            layer.source_strides[:] = cache.key.stride()[:3]
        self.source, self.source_bias = source, source_bias
        self.step.source_length = source.caches[0].key.shape[2]
        self.step.rows_per_source = source.rows_per_input
        self.step.source_bias = None if source_bias is None else source_bias.data_ptr()

    def __call__(self, x: Vectors) -> Float[Tensor, "row vocab"]:
        """The logits after tokens with these embeddings; their keys and values join the cache."""
        run, x = load_decoder_step(), x.contiguous()
        assert run is not None
        logits = x.new_empty(x.shape[0], self.step.output.out_features)
        self.step.x, self.step.logits = x.data_ptr(), logits.data_ptr()
        run(self.step)
        return logits

    def self_attention(self, layer: int, qkv: QueryKeyValue) -> Vectors:
        """The context of one layer's self-attention; its new keys and values join the cache."""
        return self._attend(layer, qkv, 1)

    def cross_attention(self, layer: int, query: Vectors) -> Vectors:
        """The context of one layer's cross-attention over the source."""
        return self._attend(layer, query, 0)

    def _attend(self, layer: int, x: QueryKeyValue, is_self: int) -> Vectors:
        """The attention of one layer alone, for batches whose products torch computes."""
        run, step = load_layer_attention(), self.step
        assert run is not None
        context = x.new_empty(x.shape[0], step.heads * step.head_dim)
        run(step, layer, x.data_ptr(), context.data_ptr(), is_self)
        return context

    def _scratch_pointer(self) -> int:
        """A pointer to memory for the kernel's intermediate results, which grows when needed."""
        step = self.step
        longest = max(step.position + 1, step.source_length)
        count = step.rows * (step.dim + 2 * step.max_width + step.heads * (step.head_dim + longest))
        if self.scratch.numel() < count:
            self.scratch = torch.empty(2 * count)
        return self.scratch.data_ptr()


def _products(layer: LayerParameters) -> Iterator[Projection]:
    """Every matrix of a layer."""
    for attention in (layer.self_attention, layer.cross_attention):
        if attention is not None:
            yield from (attention.project, attention.out)
    feed_forward = (layer.up, layer.gate, layer.down)
    yield from (product for product in feed_forward if product is not None)


def _native_layer(layer: LayerParameters) -> DecoderLayer:
    """The C++ structure of a layer."""
    attention, cross = layer.self_attention, layer.cross_attention
    return DecoderLayer(
        qkv=_native_linear(attention.project),
        self_out=_native_linear(attention.out),
        cross_query=_native_linear(None if cross is None else cross.project),
        cross_out=_native_linear(None if cross is None else cross.out),
        up=_native_linear(layer.up),
        gate=_native_linear(layer.gate),
        down=_native_linear(layer.down),
        self_norm=_native_norm(attention.norm),
        cross_norm=_native_norm(None if cross is None else cross.norm),
        ffn_norm=_native_norm(layer.norm),
    )


def _native_linear(product: Projection | None) -> Linear:
    """The C++ structure of a matrix: its pointers and sizes, null pointers for None."""
    if product is None:
        return Linear()
    assert isinstance(product, Product | QuantisedProduct)
    scales = product.scale.data_ptr() if isinstance(product, QuantisedProduct) else None
    bias = None if product.bias is None else product.bias.data_ptr()
    out_features, in_features = product.sizes
    return Linear(product.weight.data_ptr(), scales, bias, in_features, out_features)


def _native_norm(norm: NormParameters | None) -> Norm:
    """The C++ structure of a normalisation; kind 0 for None."""
    if norm is None:
        return Norm()
    bias = None if norm.bias is None else norm.bias.data_ptr()
    eps = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
    return Norm(norm.weight.data_ptr(), bias, eps, 2 if norm.is_rms else 1)
