"""What a decoder reads while it writes: its own past in rooms that grow, and the source."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.overrides import has_torch_function

from regard.attention import KeyValueCache, MultiHeadAttention
from regard.errors import InputError, ShapeError
from regard.masks import Mask, causal, everything, padding

Room = Float[Tensor, "row key_head capacity head_dim"]
Rows = Int[Tensor, " row"]

_FIRST = 32  # positions of a new room


@dataclass(frozen=True)
class Growing(KeyValueCache):
    """A cache with room for more: a longer one is written into the same room, doubled when full.

    The shorter one is spent by it.
    """

    rooms: tuple[Room, Room]

    @classmethod
    def empty(cls, attention: MultiHeadAttention, rows: int) -> "Growing":
        """A cache of nothing, for so many rows."""
        weight, heads = attention.w_k.weight, attention.key_heads
        nothing = weight.new_empty(rows, heads, 0, len(weight) // heads)
        return Growing(nothing, nothing, (nothing, nothing))

    def extended(self, new: KeyValueCache) -> "Growing":
        """This cache followed by the new one, which is the only one copied."""
        start, stop = self.length, self.length + new.length
        rooms, capacity = self.rooms, self.rooms[0].shape[2]
        if stop > capacity:
            larger = max(_FIRST, stop, 2 * capacity)
            rooms = (_moved(self.key, larger), _moved(self.value, larger))
        place = torch.arange(start, stop, device=new.key.device)
        # written by an operation on the room itself, so that who follows the data can see it
        rooms[0].index_copy_(2, place, new.key)
        rooms[1].index_copy_(2, place, new.value)
        return Growing(rooms[0][:, :, :stop], rooms[1][:, :, :stop], rooms)

    def select(self, rows: Rows) -> "Growing":
        """The cache of these rows, in a room of its own."""
        capacity, length = self.rooms[0].shape[2], self.length
        key, value = (_moved(side, capacity, rows) for side in (self.key, self.value))
        return Growing(key[:, :, :length], value[:, :, :length], (key, value))


@dataclass(frozen=True)
class Memory:
    """The projected source of one layer, a sentence each; `rows` neighbours write from each one.

    Their queries are read together as those of one sentence, so that nothing is repeated.
    """

    cache: KeyValueCache
    mask: Mask | None = None
    rows: int = 1

    def read(
        self, attention: MultiHeadAttention, query: Float[Tensor, "row new hidden"], offset: int
    ) -> Float[Tensor, "row new hidden"]:
        """The new vector of each query, from the source of its row."""
        if self.rows == 1:
            return attention.read(query, self.cache, self.mask, offset=offset)
        # a watcher sees each row with the source that it reads, as without beams
        if _placed(attention) or has_torch_function((query,)):
            return attention.read(query, *self._repeated(), offset=offset)
        folded = query.reshape(-1, self.rows * query.shape[1], query.shape[2])
        return attention.read(folded, self.cache, self.mask).view_as(query)

    def _repeated(self) -> tuple[KeyValueCache, Mask | None]:
        key, value = self.cache.key, self.cache.value
        cache = KeyValueCache(
            key.repeat_interleave(self.rows, dim=0), value.repeat_interleave(self.rows, dim=0)
        )
        if self.mask is None:
            return cache, None
        real = self.mask.dense(1, key.shape[2], device=key.device)[:, 0, 0]
        return cache, padding(real.repeat_interleave(self.rows, dim=0))


def _placed(attention: MultiHeadAttention) -> bool:
    """Whether it counts where a query stands."""
    mechanism = attention.mechanism
    free = mechanism.bias is None and mechanism.mask == everything()
    return attention.rotary is not None or not free


def _moved(side: Tensor, capacity: int, rows: Rows | None = None) -> Room:
    """Keys or values, or those of some rows, in a new room: a row's positions lie together."""
    batch, heads, length, dim = side.shape
    batch = batch if rows is None else len(rows)
    room = side.new_empty(batch, capacity, heads, dim)
    old = side.transpose(1, 2)
    if rows is None:
        room[:, :length] = old
    elif length:
        torch.index_select(old, 0, rows, out=room[:, :length])
    return room.transpose(1, 2)


@dataclass(frozen=True)
class Source:
    """The projected source, layer by layer: one for each sentence, `rows` rows write from each."""

    caches: tuple[KeyValueCache, ...]
    real: Bool[Tensor, "sentence key"] | None = None
    rows: int = 1

    def memories(self) -> tuple[Memory, ...]:
        """What each layer reads."""
        mask = None if self.real is None else padding(self.real)
        return tuple(Memory(cache, mask, self.rows) for cache in self.caches)

    def select(self, rows: Rows) -> "Source":
        """The sentences of these rows; one that no row writes from is dropped.

        While all have as many neighbouring rows, no sentence is repeated.
        """
        owners = torch.div(rows, self.rows, rounding_mode="floor")
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        each = int(counts[0])
        if not bool((counts == each).all()):
            kept, each = owners, 1
        count = self.caches[0].key.shape[0]
        if len(kept) == count and torch.equal(kept, torch.arange(count, device=kept.device)):
            return replace(self, rows=each)
        caches = tuple(
            KeyValueCache(cache.key.index_select(0, kept), cache.value.index_select(0, kept))
            for cache in self.caches
        )
        return Source(caches, None if self.real is None else self.real[kept], each)


@dataclass(frozen=True)
class TransformerState:
    """What so many rows have read: `length` tokens each, of which the first `pads` are padding."""

    rows: int
    own: tuple[Growing, ...]
    pads: Rows | None = None
    source: Source | None = None
    length: int = 0

    def select(self, rows: Rows) -> "TransformerState":
        """These rows in this order, a row as often as it is named; the others leave."""
        if unmoved(rows, self.rows):
            return self
        return TransformerState(
            len(rows),
            tuple(cache.select(rows) for cache in self.own),
            None if self.pads is None else self.pads[rows],
            None if self.source is None else self.source.select(rows),
            self.length,
        )

    def read(self, own: tuple[Growing, ...], new: int) -> "TransformerState":
        """The state that has read so many new tokens."""
        return replace(self, own=own, length=self.length + new)

    def places(self, new: int) -> Int[Tensor, "row new"] | None:
        """The position of each new token among the real ones; None where all count from one."""
        if self.pads is None:
            return None
        slots = torch.arange(self.length, self.length + new, device=self.pads.device)
        return (slots - self.pads[:, None]).clamp_min(0)

    def mask(self, new: int) -> Mask:
        """A new token sees itself and the real ones before it."""
        if self.pads is None:
            return causal()
        slots = torch.arange(self.length + new, device=self.pads.device)
        return causal() & padding(slots >= self.pads[:, None])


def unmoved(rows: Rows, count: int) -> bool:
    """Whether these are all of so many rows as they are; an InputError if there is none."""
    if not len(rows):
        raise InputError("expected at least one row to go on with, got none")
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))


def check_tokens(tokens: Tensor, rows: int) -> None:
    """Raise a ShapeError unless there are new tokens for each row of a state."""
    if tokens.dim() != 2 or len(tokens) != rows:
        raise ShapeError(
            f"expected new tokens for each of the {rows} rows of this state, ({rows}, new), "
            f"got {tuple(tokens.shape)}"
        )


def left_padding(real: Bool[Tensor, "row length"] | None) -> Rows | None:
    """How many tokens of each row are padding on its left; None where no row is padded."""
    if real is None:
        return None
    pads = (~real).sum(dim=1)
    slots = torch.arange(real.shape[1], device=real.device)
    if not torch.equal(real, slots >= pads[:, None]):
        raise InputError(
            "expected prompts padded on their left, got padding elsewhere; "
            "use a tokenizer with padding_side='left'"
        )
    if bool((pads == real.shape[1]).any()):
        raise InputError("expected at least one token in each prompt, got one of padding alone")
    return pads
