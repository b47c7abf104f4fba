"""Decoding without detours: the steps of a plain decoder as a short list of products.

With a token for each row, modules and checks around a product take longer than the product itself.
What is done here is what the layers do. A decoder that is not plain in every part, or that somebody
watches, is read by its layers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import has_torch_function

from regard.attention import Rotary
from regard.models.transformer.heads import LanguageHead
from regard.models.transformer.parts import Part, Reading, Vectors, norm_of, parts_of
from regard.models.transformer.products import Product
from regard.models.transformer.stack import Stack
from regard.models.transformer.state import Source, TransformerState

Rows = Int[Tensor, " row"]
Seen = Float[Tensor, "row 1 new key"]
Room = Float[Tensor, "layer position row side head dim"]

_FIRST = 32  # positions of a new room


@dataclass(frozen=True)
class Plan:
    """A decoder and its head taken apart."""

    embeddings: Callable[..., Tensor]
    parts: tuple[Part, ...]
    norm: Callable[[Tensor], Tensor]
    features: Callable[[Tensor], Tensor]
    output: Product


def plan_of(decoder: Stack, head: nn.Module | None, tokens: Tensor) -> Plan | None:
    """How to read without the layers; None where they are needed: not plain, or watched."""
    watched = torch.compiler.is_compiling() or has_torch_function((tokens,))
    if watched or not isinstance(head, LanguageHead):
        return None
    heard = any(each._forward_hooks or each._forward_pre_hooks for each in head.modules())
    parts = None if heard or type(head.output) is not nn.Linear else parts_of(decoder)
    if not parts:
        return None
    return Plan(
        decoder.embeddings, parts, norm_of(decoder.norm), head.features, Product.by(head.output)
    )


@dataclass(frozen=True)
class FluentState:
    """What so many rows have read, all layers in one room.

    Rows that go on are written from one room into the other, and back the next time: memory that
    is new is slow.
    """

    plan: Plan
    room: Room
    pads: Rows | None = None
    source: Source | None = None
    hidden: Float[Tensor, "sentence 1 1 key"] | None = None
    length: int = 0
    spare: Room | None = None

    @staticmethod
    def of(state: TransformerState, plan: Plan) -> "FluentState":
        """The state in which nothing has been read yet."""
        weight, own = plan.output.weight, plan.parts[0].own
        dim = len(own.project.weight) // (own.heads + 2 * own.key_heads)
        room = weight.new_empty(len(plan.parts), 0, state.rows, 2, own.key_heads, dim)
        return FluentState(plan, room, state.pads, state.source, _hidden(state.source, weight))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.room.shape[2]

    def select(self, rows: Rows) -> "FluentState":
        """These rows in this order, a row as often as it is named; the others leave."""
        layers, capacity, _, *rest = self.room.shape
        spare = self.spare
        if spare is None or spare.shape[1] != capacity or spare.shape[2] < len(rows):
            spare = self.room.new_empty(layers, capacity, len(rows), *rest)
        room = spare[:, :, : len(rows)]
        for layer in range(layers if self.length else 0):
            old, new = self.room[layer, : self.length], room[layer, : self.length]
            torch.index_select(old, 1, rows, out=new)
        source = None if self.source is None else self.source.select(rows)
        pads, hidden = None if self.pads is None else self.pads[rows], _hidden(source, room)
        return FluentState(self.plan, room, pads, source, hidden, self.length, self.room)

    def step(
        self, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], "FluentState"]:
        """The logits after the last of the new tokens, and the state that has read them."""
        new = tokens.shape[1]
        reader = Reader(self._grown(new), new)
        places = reader.places()
        x = self.plan.embeddings(tokens, offset=self.length, places=places).flatten(0, 1)
        for layer, part in enumerate(self.plan.parts):
            x = reader.read(part, layer, x)
        x = self.plan.norm(x.view(self.rows, new, -1)[:, -1])
        return self.plan.output(self.plan.features(x)), reader.state

    def _grown(self, new: int) -> "FluentState":
        """The state with so many positions more, as yet unwritten."""
        stop, capacity = self.length + new, self.room.shape[1]
        if stop <= capacity:
            return replace(self, length=stop)
        layers, _, *rest = self.room.shape
        larger = self.room.new_empty(layers, max(_FIRST, stop, 2 * capacity), *rest)
        larger[:, : self.length] = self.room[:, : self.length]
        return replace(self, room=larger, spare=None, length=stop)


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


class Reader:
    """One step: reads so many new tokens of each row into a state that has room for them."""

    def __init__(self, state: FluentState, new: int) -> None:
        self.state, self.new, self.start = state, new, state.length - new
        self.slots = state.room[:, self.start : state.length].unbind(0)
        self.sides = state.room[:, : state.length].permute(0, 3, 2, 4, 1, 5).unbind(0)
        self.unseen = self._unseen()
        rotary = state.plan.parts[0].own.rotary
        span = (self.start, state.length, state.room)
        self.turns = None if rotary is None else Turns.of(rotary, *span)

    def places(self) -> Int[Tensor, "row new"] | None:
        """The position of each new token among the real ones; None where all count from one."""
        pads = self.state.pads
        if pads is None:
            return None
        slots = torch.arange(self.start, self.state.length, device=pads.device)
        return (slots - pads[:, None]).clamp_min(0)

    def read(self, part: Part, layer: int, x: Vectors) -> Vectors:
        """The vectors after this layer."""
        own, other = part.own, part.other
        x = part.add(own, x, self._own(own, layer, own.norm(x) if part.norm_first else x))
        if other is not None:
            y = other.norm(x) if part.norm_first else x
            x = part.add(other, x, self._other(other, layer, y))
        return part.feed(x)

    def _own(self, reading: Reading, layer: int, x: Vectors) -> Vectors:
        """What the text that was written says, the new tokens included."""
        rows, new, heads, shared = self.state.rows, self.new, reading.heads, reading.key_heads
        joined = reading.project(x).view(rows, new, heads + 2 * shared, -1)
        if self.turns is not None:
            turned = joined.narrow(2, 0, heads + shared)
            turned.copy_(self.turns(turned))
        fresh = joined.narrow(2, heads, 2 * shared).view(rows, new, 2, shared, -1)
        self.slots[layer].copy_(fresh.transpose(0, 1))
        key, value = self.sides[layer].unbind(0)
        context = F.scaled_dot_product_attention(
            joined.narrow(2, 0, heads).transpose(1, 2),
            key,
            value,
            self.unseen,
            is_causal=self.unseen is None and new > 1,
            enable_gqa=heads != shared,
        )
        return context.transpose(1, 2).reshape(rows * new, -1)

    def _other(self, reading: Reading, layer: int, x: Vectors) -> Vectors:
        """What the source says; the rows of a sentence ask together."""
        source = self.state.source
        assert source is not None
        cache, each = source.caches[layer], source.rows * self.new
        query = reading.project(x).view(-1, each, reading.heads, cache.key.shape[3])
        context = F.scaled_dot_product_attention(
            query.transpose(1, 2),
            cache.key,
            cache.value,
            self.state.hidden,
            enable_gqa=reading.heads != reading.key_heads,
        )
        return context.transpose(1, 2).reshape(x.shape)

    def _unseen(self) -> Seen | None:
        """Minus infinity where a new token does not see: padding, and what comes later.

        None where the first tokens see what is before them, or one token all.
        """
        pads, stop = self.state.pads, self.state.length
        if pads is None and (self.new == 1 or self.start == 0):
            return None
        room = self.state.room
        slots = torch.arange(stop, device=room.device)
        later = slots > slots[self.start :, None]
        if pads is not None:
            later = later | (slots < pads[:, None])[:, None, None]
            # a token of padding sees itself, for a row that sees nothing has no weights
            later = later & (slots != slots[self.start :, None])
        zeros = torch.zeros(later.shape, dtype=room.dtype, device=room.device)
        return zeros.masked_fill_(later, -torch.inf).view(-1, 1, self.new, stop)


def _hidden(source: Source | None, like: Tensor) -> Float[Tensor, "sentence 1 1 key"] | None:
    """Minus infinity where the source is padding."""
    if source is None or source.real is None:
        return None
    zeros = torch.zeros(source.real.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~source.real, -torch.inf)[:, None, None]
