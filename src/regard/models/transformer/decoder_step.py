"""The native step of a decoder: its parts told to the kernel once, its state at every token."""

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
from regard.models.transformer import layer_parameters as taken_apart
from regard.models.transformer.kv_cache import Source
from regard.models.transformer.layer_parameters import Part, Vectors
from regard.models.transformer.layers import activation

Joined = Float[Tensor, "row joined"]

_ACTIVATIONS = {activation(name): n for n, name in enumerate(("relu", "gelu", "gelu-tanh", "silu"))}


@dataclass(frozen=True)
class Past:
    """What the rows have read: `start` positions, of which `pads` may be padding.

    At position p a row finds what it read in row table[p] of the room.
    """

    room: Float[Tensor, "layer position room_row side head dim"]
    table: Int[Tensor, "row position"]
    start: int
    pads: Int[Tensor, " row"] | None
    turns: RotaryTable | None


class Engine:
    """All layers of a decoder and its output, for few rows in float32 on a CPU."""

    def __init__(
        self, parts: tuple[Part, ...], norm: taken_apart.Norm | None, output: Projection
    ) -> None:
        self.parts, self.held = parts, (norm, output)  # what the kernel reads must live on
        self.blocks = (DecoderLayer * len(parts))(*map(_block, parts))
        own, first = parts[0].own, parts[0]
        joined = own.project.sizes[0]
        self.step = DecoderStep(
            final_norm=_norm(norm),
            output=_linear(output),
            layer_count=len(parts),
            dim=output.sizes[1],
            max_width=max(joined, first.up.sizes[0]),
            heads=own.heads,
            key_heads=own.key_heads,
            head_dim=joined // (own.heads + 2 * own.key_heads),
            norm_first=int(first.norm_first),
            activation=_ACTIVATIONS[first.activation],
            rotary_halves=int(own.rotary is not None and own.rotary.pairs == "halves"),
        )
        self.step.layers = ctypes.addressof(self.blocks)
        self.scratch = torch.empty(0)
        self.past: Past | None = None
        self.source: Source | None = None
        self.hidden: Tensor | None = None

    @staticmethod
    def of(
        parts: tuple[Part, ...], norm: taken_apart.Norm | None, output: Projection
    ) -> "Engine | None":
        """The engine of these parts; None where it is not built, or they are not for it."""
        known = load_layer_attention() is not None and all(
            part.activation in _ACTIVATIONS for part in parts
        )
        native = known and all(each.native for part in parts for each in _products(part))
        return Engine(parts, norm, output) if native and output.native else None

    def takes(self, rows: int) -> bool:
        """Whether so many rows are few enough to be multiplied here; in eight bits all are."""
        return rows <= MAX_MATVEC_ROWS or isinstance(self.held[1], QuantisedProduct)

    def aim(self, past: Past) -> None:
        """From now on, read this past."""
        step, self.past = self.step, past
        step.rows, step.position, step.threads = (
            len(past.table),
            past.start,
            torch.get_num_threads(),
        )
        step.cache, step.cache_rows = past.room.data_ptr(), past.table.data_ptr()
        step.cache_strides[:] = past.room.stride()[:4]
        step.cache_rows_stride = past.table.stride(0)
        step.padding = None if past.pads is None else past.pads.data_ptr()
        if past.turns is not None:
            step.cos, step.sin = past.turns.cos.data_ptr(), past.turns.sin.data_ptr()
        step.scratch = self._scratch()

    def __call__(self, x: Vectors) -> Float[Tensor, "row vocab"]:
        """The logits after the tokens of these vectors, which become the newest of the past."""
        run, x = load_decoder_step(), x.contiguous()
        assert run is not None
        logits = x.new_empty(x.shape[0], self.step.output.out_features)
        self.step.x, self.step.logits = x.data_ptr(), logits.data_ptr()
        run(self.step)
        return logits

    def own(self, layer: int, joined: Joined) -> Vectors:
        """What the past says to these queries, whose keys and values become the newest of it."""
        return self._read(layer, joined, 1)

    def other(self, layer: int, query: Vectors) -> Vectors:
        """What the source says to these queries."""
        return self._read(layer, query, 0)

    def _read(self, layer: int, x: Joined, own: int) -> Vectors:
        run, step = load_layer_attention(), self.step
        assert run is not None
        context = x.new_empty(x.shape[0], step.heads * step.head_dim)
        run(step, layer, x.data_ptr(), context.data_ptr(), own)
        return context

    def look_at(self, source: Source | None, hidden: Tensor | None) -> None:
        """From now on, read this source; `hidden` is added to its scores."""
        if source is None or source is self.source:
            return
        for block, cache in zip(self.blocks, source.caches, strict=True):
            block.source_key, block.source_value = cache.key.data_ptr(), cache.value.data_ptr()
            block.source_strides[:] = cache.key.stride()[:3]
        self.source, self.hidden = source, hidden
        self.step.source_length, self.step.rows_per_source = (
            source.caches[0].key.shape[2],
            source.rows,
        )
        self.step.source_bias = None if hidden is None else hidden.data_ptr()

    def _scratch(self) -> int:
        """The place of as many numbers as the kernel wants to write down in between."""
        step = self.step
        longest = max(step.position + 1, step.source_length)
        count = step.rows * (step.dim + 2 * step.max_width + step.heads * (step.head_dim + longest))
        if self.scratch.numel() < count:
            self.scratch = torch.empty(2 * count)
        return self.scratch.data_ptr()


def _products(part: Part) -> Iterator[Projection]:
    for reading in (part.own, part.other):
        if reading is not None:
            yield from (reading.project, reading.out)
    yield from (each for each in (part.up, part.gate, part.down) if each is not None)


def _block(part: Part) -> DecoderLayer:
    own, other = part.own, part.other
    return DecoderLayer(
        qkv=_linear(own.project),
        self_out=_linear(own.out),
        cross_query=_linear(None if other is None else other.project),
        cross_out=_linear(None if other is None else other.out),
        up=_linear(part.up),
        gate=_linear(part.gate),
        down=_linear(part.down),
        self_norm=_norm(own.norm),
        cross_norm=_norm(None if other is None else other.norm),
        ffn_norm=_norm(part.norm),
    )


def _linear(product: Projection | None) -> Linear:
    """The place of a matrix, and its sizes; without one, nothing."""
    if product is None:
        return Linear()
    assert isinstance(product, Product | QuantisedProduct)
    scales = product.scale.data_ptr() if isinstance(product, QuantisedProduct) else None
    bias = None if product.bias is None else product.bias.data_ptr()
    outs, dim = product.sizes
    return Linear(product.weight.data_ptr(), scales, bias, dim, outs)


def _norm(norm: taken_apart.Norm | None) -> Norm:
    if norm is None:
        return Norm()
    bias = None if norm.bias is None else norm.bias.data_ptr()
    eps = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
    return Norm(norm.weight.data_ptr(), bias, eps, 2 if norm.root else 1)
