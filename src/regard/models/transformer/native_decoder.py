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

from regard.attention.positions import RotaryTable
from regard.attention.projection import Projection, projection
from regard.models.transformer.decoder_step import Engine, Past
from regard.models.transformer.heads import LanguageHead
from regard.models.transformer.kv_cache import Growing, Source, TransformerState, unmoved
from regard.models.transformer.layer_parameters import Norm, Part, Reading, Vectors, parts_of
from regard.models.transformer.layers import Stack

Rows = Int[Tensor, " row"]
Seen = Float[Tensor, "row 1 new key"]
Room = Float[Tensor, "layer capacity room_row side head dim"]
Side = Float[Tensor, "row head key dim"]

_FIRST = 32  # positions of a new room


@dataclass(frozen=True)
class Plan:
    """A decoder and its head taken apart; `like` is of the kind of all its numbers."""

    embeddings: Callable[..., Tensor]
    parts: tuple[Part, ...]
    norm: Norm | None
    output: Projection
    like: Tensor
    engine: Engine | None

    def turns(self, start: int, stop: int, like: Tensor) -> RotaryTable | None:
        """The rotary positions of some places, if it has any."""
        rotary = self.parts[0].own.rotary
        return None if rotary is None else rotary.table(start, stop, like)


def watched(tokens: Tensor) -> bool:
    """Whether somebody wants to see what is done with these tokens, or to compile it."""
    return torch.compiler.is_compiling() or has_torch_function((tokens,))


def plan_of(decoder: Stack, head: nn.Module | None, tokens: Tensor) -> Plan | None:
    """How to read without the layers; None where they are needed: not plain, or watched."""
    if watched(tokens) or not isinstance(head, LanguageHead) or head.transform is not None:
        return None
    heard = any(each._forward_hooks or each._forward_pre_hooks for each in head.modules())
    output = None if heard else projection(head.output)
    parts = None if output is None else parts_of(decoder)
    if output is None or not parts:
        return None
    norm = None if decoder.norm is None else Norm.of(decoder.norm)
    engine = Engine.of(parts, norm, output)
    return Plan(decoder.embeddings, parts, norm, output, parts[0].norm.weight, engine)


@dataclass(frozen=True)
class FluentState:
    """What so many rows have read, all layers in one room: (layer, position, row, side, head, dim).

    `table` tells in which row of the room each row finds what it read at each position: rows that
    change places, part or leave move no key and no value.
    """

    plan: Plan
    room: Room
    table: Int[Tensor, "row capacity"]
    pads: Rows | None = None
    source: Source | None = None
    hidden: Float[Tensor, "sentence 1 1 key"] | None = None
    length: int = 0

    @staticmethod
    def of(state: TransformerState, plan: Plan) -> "FluentState":
        """The state in which nothing has been read yet."""
        like, own = plan.like, plan.parts[0].own
        dim = own.project.sizes[0] // (own.heads + 2 * own.key_heads)
        room = like.new_empty(len(plan.parts), 0, state.rows, 2, own.key_heads, dim)
        table = torch.empty(state.rows, 0, dtype=torch.long, device=like.device)
        hidden = _hidden(state.source, like)
        return FluentState(plan, room, table, state.pads, state.source, hidden)

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.table.shape[0]

    def select(self, rows: Rows) -> "FluentState":
        """These rows in this order, a row as often as it is named; the others leave."""
        if unmoved(rows, self.rows):
            return self
        source = None if self.source is None else self.source.select(rows)
        return replace(
            self,
            table=self.table[rows],
            pads=None if self.pads is None else self.pads[rows],
            source=source,
            hidden=_hidden(source, self.room),
        )

    def layered(self) -> TransformerState:
        """The same as the layers keep it, for them to go on from."""
        own = tuple(
            Growing(key, value, (key, value)) for key, value in map(self.sides, self.layers)
        )
        return TransformerState(self.rows, own, self.pads, self.source, self.length)

    @property
    def layers(self) -> range:
        """The numbers of the layers."""
        return range(self.room.shape[0])

    def sides(self, layer: int) -> tuple[Side, Side]:
        """The keys and the values that each row has read."""
        places = torch.arange(self.length, device=self.table.device)
        read = self.room[layer, places, self.table[:, : self.length]]
        key, value = read.permute(2, 0, 3, 1, 4).unbind(0)
        return key, value

    def step(
        self, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], "FluentState"]:
        """The logits after the last of the new tokens, and the state that has read them."""
        plan, new, engine = self.plan, tokens.shape[1], self.plan.engine
        state = self._grown(new)
        x = plan.embeddings(tokens, offset=self.length, places=self._places(new)).flatten(0, 1)
        turns = plan.turns(self.length, state.length, x)
        if engine is not None and new == 1:
            engine.look_at(self.source, self.hidden)
            engine.aim(Past(state.room, state.table, self.length, self.pads, turns))
            if engine.takes(self.rows):
                return engine(x), state
        reader = Reader(state, new, turns)
        for layer, part in enumerate(plan.parts):
            x = reader.read(part, layer, x)
        x = x.view(self.rows, new, -1)[:, -1]
        return plan.output(x if plan.norm is None else plan.norm(x)), state

    def _places(self, new: int) -> Int[Tensor, "row new"] | None:
        """The position of each new token among the real ones; None where all count from one."""
        if self.pads is None:
            return None
        slots = torch.arange(self.length, self.length + new, device=self.pads.device)
        return (slots - self.pads[:, None]).clamp_min(0)

    def _grown(self, new: int) -> "FluentState":
        """The state with so many positions more, as yet unwritten: each row has its own there."""
        start, stop = self.length, self.length + new
        layers, capacity, lines, *rest = self.room.shape
        room, table = self.room, self.table
        if stop > capacity or self.rows > lines:
            wider = (max(_FIRST, stop, 2 * capacity) if stop > capacity else capacity, self.rows)
            room = self.room.new_empty(layers, wider[0], max(lines, wider[1]), *rest)
            room[:, :start, :lines] = self.room[:, :start]
        if room.shape[1] > table.shape[1]:
            table = F.pad(table, (0, room.shape[1] - table.shape[1]))
        table[:, start:stop] = torch.arange(self.rows, device=table.device)[:, None]
        return replace(self, room=room, table=table, length=stop)


class Reader:
    """One step: reads so many new tokens of each row into a state that has room for them."""

    def __init__(self, state: FluentState, new: int, turns: RotaryTable | None) -> None:
        self.state, self.new, self.start = state, new, state.length - new
        self.turns, self.unseen = turns, self._unseen()
        self.engine = state.plan.engine if new == 1 else None

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
        joined = reading.project(x)
        if self.engine is not None:
            return self.engine.own(layer, joined)
        joined = joined.view(rows, new, heads + 2 * shared, -1)
        if self.turns is not None:
            turned = joined.narrow(2, 0, heads + shared)
            turned.copy_(self.turns.rotate(turned))
        fresh = joined.narrow(2, heads, 2 * shared).view(rows, new, 2, shared, -1)
        slots = self.state.room[layer, self.start : self.state.length, :rows]
        slots.copy_(fresh.transpose(0, 1))
        key, value = self.state.sides(layer)
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
        source, query = self.state.source, reading.project(x)
        assert source is not None
        if self.engine is not None:
            return self.engine.other(layer, query)
        cache, each = source.caches[layer], source.rows * self.new
        query = query.view(-1, each, reading.heads, cache.key.shape[3])
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
