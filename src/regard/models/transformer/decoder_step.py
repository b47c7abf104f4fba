"""The native step of a decoder: its parts told to the kernel once, its state at every token."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Rotary
from regard.attention.projection import Product, Projection, QuantisedProduct
from regard.kernels.decode.decoder_step import Block, Linear, Norm, Step, decoder, reader
from regard.kernels.decode.matvec import MAX_MATVEC_ROWS
from regard.models.transformer import layer_parameters as taken_apart
from regard.models.transformer.kv_cache import Source
from regard.models.transformer.layer_parameters import Part, Vectors
from regard.models.transformer.layers import activation

Joined = Float[Tensor, "row joined"]

_ACTIVATIONS = {activation(name): n for n, name in enumerate(("relu", "gelu", "gelu-tanh", "silu"))}


@dataclass(frozen=True)
class Turns:
    """Rotary positions of one step: x cos + x' sin, x' with the two of each pair exchanged."""

    cos: Float[Tensor, "new 1 dim"]
    sin: Float[Tensor, "new 1 dim"]
    halves: bool

    @staticmethod
    def of(rotary: Rotary, start: int, stop: int, like: Tensor) -> "Turns":
        """Those of some positions."""
        places = torch.arange(start, stop, device=like.device)
        angles = places[:, None, None] * rotary.frequency
        cos, sin = angles.cos().to(like.dtype), angles.sin().to(like.dtype)
        if rotary.pairs == "halves":
            return Turns(torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1), True)
        pairs = (torch.stack([cos, cos], -1), torch.stack([-sin, sin], -1))
        return Turns(pairs[0].flatten(-2), pairs[1].flatten(-2), False)

    def __call__(self, x: Float[Tensor, "row new head dim"]) -> Float[Tensor, "row new head dim"]:
        """The vectors turned."""
        if self.halves:
            exchanged = x.roll(x.shape[3] // 2, 3)
        else:
            exchanged = x.unflatten(3, (-1, 2)).flip(4).flatten(3)
        return torch.addcmul(x * self.cos, exchanged, self.sin)


@dataclass(frozen=True)
class Past:
    """What the rows have read: `start` positions, of which `pads` may be padding.

    At position p a row finds what it read in row table[p] of the room.
    """

    room: Float[Tensor, "layer position room_row side head dim"]
    table: Int[Tensor, "row position"]
    start: int
    pads: Int[Tensor, " row"] | None
    turns: Turns | None


class Engine:
    """All layers of a decoder and its output, for few rows in float32 on a CPU."""

    def __init__(
        self, parts: tuple[Part, ...], norm: taken_apart.Norm | None, output: Projection
    ) -> None:
        self.parts, self.held = parts, (norm, output)  # what the kernel reads must live on
        self.blocks = (Block * len(parts))(*map(_block, parts))
        own, first = parts[0].own, parts[0]
        joined = own.project.sizes[0]
        self.step = Step(
            norm=_norm(norm),
            output=_linear(output),
            layers=len(parts),
            dim=output.sizes[1],
            wide=max(joined, first.up.sizes[0]),
            heads=own.heads,
            key_heads=own.key_heads,
            head_dim=joined // (own.heads + 2 * own.key_heads),
            norm_first=int(first.norm_first),
            activation=_ACTIVATIONS[first.activation],
            halves=int(own.rotary is not None and own.rotary.pairs == "halves"),
        )
        self.step.blocks = ctypes.addressof(self.blocks)
        self.scratch = torch.empty(0)
        self.past: Past | None = None
        self.source: Source | None = None
        self.hidden: Tensor | None = None

    @staticmethod
    def of(
        parts: tuple[Part, ...], norm: taken_apart.Norm | None, output: Projection
    ) -> "Engine | None":
        """The engine of these parts; None where it is not built, or they are not for it."""
        known = reader() is not None and all(part.activation in _ACTIVATIONS for part in parts)
        native = known and all(each.native for part in parts for each in _products(part))
        return Engine(parts, norm, output) if native and output.native else None

    def takes(self, rows: int) -> bool:
        """Whether so many rows are few enough to be multiplied here; in eight bits all are."""
        return rows <= MAX_MATVEC_ROWS or isinstance(self.held[1], QuantisedProduct)

    def aim(self, past: Past) -> None:
        """From now on, read this past."""
        step, self.past = self.step, past
        step.rows, step.start, step.threads = len(past.table), past.start, torch.get_num_threads()
        step.room, step.table = past.room.data_ptr(), past.table.data_ptr()
        step.room_strides[:] = past.room.stride()[:4]
        step.table_stride = past.table.stride(0)
        step.pads = None if past.pads is None else past.pads.data_ptr()
        if past.turns is not None:
            step.cos, step.sin = past.turns.cos.data_ptr(), past.turns.sin.data_ptr()
        step.scratch = self._scratch()

    def __call__(self, x: Vectors) -> Float[Tensor, "row vocab"]:
        """The logits after the tokens of these vectors, which become the newest of the past."""
        run, x = decoder(), x.contiguous()
        assert run is not None
        logits = x.new_empty(x.shape[0], self.step.output.outs)
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
        run, step = reader(), self.step
        assert run is not None
        context = x.new_empty(x.shape[0], step.heads * step.head_dim)
        run(step, layer, x.data_ptr(), context.data_ptr(), own)
        return context

    def look_at(self, source: Source | None, hidden: Tensor | None) -> None:
        """From now on, read this source; `hidden` is added to its scores."""
        if source is None or source is self.source:
            return
        for block, cache in zip(self.blocks, source.caches, strict=True):
            block.key, block.value = cache.key.data_ptr(), cache.value.data_ptr()
            block.strides[:] = cache.key.stride()[:3]
        self.source, self.hidden = source, hidden
        self.step.source, self.step.each = source.caches[0].key.shape[2], source.rows
        self.step.hidden = None if hidden is None else hidden.data_ptr()

    def _scratch(self) -> int:
        """The place of as many numbers as the kernel wants to write down in between."""
        step = self.step
        longest = max(step.start + 1, step.source)
        count = step.rows * (step.dim + 2 * step.wide + step.heads * (step.head_dim + longest))
        if self.scratch.numel() < count:
            self.scratch = torch.empty(2 * count)
        return self.scratch.data_ptr()


def _products(part: Part) -> Iterator[Projection]:
    for reading in (part.own, part.other):
        if reading is not None:
            yield from (reading.project, reading.out)
    yield from (each for each in (part.up, part.gate, part.down) if each is not None)


def _block(part: Part) -> Block:
    own, other = part.own, part.other
    return Block(
        joined=_linear(own.project),
        out=_linear(own.out),
        query=_linear(None if other is None else other.project),
        cross_out=_linear(None if other is None else other.out),
        up=_linear(part.up),
        gate=_linear(part.gate),
        down=_linear(part.down),
        own=_norm(own.norm),
        cross=_norm(None if other is None else other.norm),
        last=_norm(part.norm),
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
