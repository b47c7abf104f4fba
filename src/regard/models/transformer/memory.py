"""What a decoder reads while it writes: its own past in rooms that grow, and the source."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.overrides import has_torch_function

from regard.attention import KeyValueCache, MultiHeadAttention
from regard.masks import Mask, everything, padding

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
