"""What a Transformer keeps between two steps of decoding: key/value caches and the encoded source.

`TransformerState` is the state of the ordinary decoder, which runs its layers as modules. Each
layer has a `GrowingCache` of the tokens read so far. An encoder-decoder also has a `SourceCache`:
the source, projected to the keys and values of every cross-attention once for all steps.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.overrides import has_torch_function

from regard.attention import KeyValueCache, MultiHeadAttention
from regard.errors import InputError, ShapeError
from regard.masks import Mask, causal, everything, padding

Buffer = Float[Tensor, "row key_head capacity head_dim"]
Rows = Int[Tensor, " row"]

_FIRST_CAPACITY = 32  # positions


@dataclass(frozen=True)
class GrowingCache(KeyValueCache):
    """A cache that is a view of larger buffers, which double when they are full.

    New keys and values are written into the buffers in place, so a step does not copy the past. The
    cache before must not be used any more afterwards: both share the buffers.
    """

    buffers: tuple[Buffer, Buffer]

    @classmethod
    def empty(cls, attention: MultiHeadAttention, rows: int) -> "GrowingCache":
        """A cache without any position for a batch of `rows` rows."""
        weight, heads = attention.w_k.weight, attention.key_heads
        nothing = weight.new_empty(rows, heads, 0, len(weight) // heads)
        return GrowingCache(nothing, nothing, (nothing, nothing))

    def extended(self, new: KeyValueCache) -> "GrowingCache":
        """This cache followed by the new keys and values, which alone are copied."""
        start, stop = self.length, self.length + new.length
        buffers, capacity = self.buffers, self.buffers[0].shape[2]
        if stop > capacity:
            larger = max(_FIRST_CAPACITY, stop, 2 * capacity)
            buffers = (_copy_to_buffer(self.key, larger), _copy_to_buffer(self.value, larger))
        place = torch.arange(start, stop, device=new.key.device)
        # index_copy_ is an operation on the buffer itself, which `regard.watch` can follow; an
        # assignment to a slice would be one on a view.
        buffers[0].index_copy_(2, place, new.key)
        buffers[1].index_copy_(2, place, new.value)
        return GrowingCache(buffers[0][:, :, :stop], buffers[1][:, :, :stop], buffers)

    def select(self, rows: Rows) -> "GrowingCache":
        """The cache of these rows in this order, in buffers of its own."""
        capacity, length = self.buffers[0].shape[2], self.length
        key, value = (_copy_to_buffer(side, capacity, rows) for side in (self.key, self.value))
        return GrowingCache(key[:, :, :length], value[:, :, :length], (key, value))


@dataclass(frozen=True)
class LayerSource:
    """The source as one cross-attention layer reads it: projected keys and values, and a mask.

    There is one entry for each input. `rows_per_input` neighbouring batch rows, the beams of an
    input, read the same entry.
    """

    cache: KeyValueCache
    mask: Mask | None = None
    rows_per_input: int = 1

    def attend(
        self, attention: MultiHeadAttention, query: Float[Tensor, "row new hidden"], offset: int
    ) -> Float[Tensor, "row new hidden"]:
        """The context of each query over the source of its row."""
        if self.rows_per_input == 1:
            return attention.read(query, self.cache, self.mask, offset=offset)
        # Someone who watches sees each row with the source that it reads, as without beams.
        if _depends_on_position(attention) or has_torch_function((query,)):
            return attention.read(query, *self._repeat(), offset=offset)
        # The queries of all beams of an input become queries of one row: the source is not copied.
        folded = query.reshape(-1, self.rows_per_input * query.shape[1], query.shape[2])
        return attention.read(folded, self.cache, self.mask).view_as(query)

    def _repeat(self) -> tuple[KeyValueCache, Mask | None]:
        """The cache and the mask with an entry for each batch row."""
        key, value = self.cache.key, self.cache.value
        count = self.rows_per_input
        cache = KeyValueCache(
            key.repeat_interleave(count, dim=0), value.repeat_interleave(count, dim=0)
        )
        if self.mask is None:
            return cache, None
        real = self.mask.dense(1, key.shape[2], device=key.device)[:, 0, 0]
        return cache, padding(real.repeat_interleave(count, dim=0))


@dataclass(frozen=True)
class SourceCache:
    """The source projected for every layer; `rows_per_input` batch rows read from each input.

    `real` is True for tokens of the source that are not padding, and None if all are real.
    """

    caches: tuple[KeyValueCache, ...]
    real: Bool[Tensor, "sentence key"] | None = None
    rows_per_input: int = 1

    def by_layer(self) -> tuple[LayerSource, ...]:
        """The source as each layer reads it."""
        mask = None if self.real is None else padding(self.real)
        return tuple(LayerSource(cache, mask, self.rows_per_input) for cache in self.caches)

    def select(self, rows: Rows) -> "SourceCache":
        """The source of these batch rows; an input that no row reads is dropped.

        As long as all inputs have the same number of neighbouring rows, none is repeated.
        """
        inputs = torch.div(rows, self.rows_per_input, rounding_mode="floor")
        kept, counts = torch.unique_consecutive(inputs, return_counts=True)
        rows_per_input = int(counts[0])
        if not bool((counts == rows_per_input).all()):
            kept, rows_per_input = inputs, 1
        count = self.caches[0].key.shape[0]
        if len(kept) == count and torch.equal(kept, torch.arange(count, device=kept.device)):
            return replace(self, rows_per_input=rows_per_input)
        caches = tuple(
            KeyValueCache(cache.key.index_select(0, kept), cache.value.index_select(0, kept))
            for cache in self.caches
        )
        return SourceCache(caches, None if self.real is None else self.real[kept], rows_per_input)


@dataclass(frozen=True)
class TransformerState:
    """The state after each of `rows` rows has read `length` tokens.

    `self_caches` are the keys and values of each layer's self-attention. `left_padding` is the
    number of padding tokens that each row begins with, None if no row has any.
    """

    rows: int
    self_caches: tuple[GrowingCache, ...]
    left_padding: Rows | None = None
    source: SourceCache | None = None
    length: int = 0

    def select(self, rows: Rows) -> "TransformerState":
        """The state of these rows in this order; a row may be repeated, and others are dropped."""
        if keeps_all_rows(rows, self.rows):
            return self
        return TransformerState(
            len(rows),
            tuple(cache.select(rows) for cache in self.self_caches),
            None if self.left_padding is None else self.left_padding[rows],
            None if self.source is None else self.source.select(rows),
            self.length,
        )

    def after_reading(self, self_caches: tuple[GrowingCache, ...], new: int) -> "TransformerState":
        """The state after `new` more tokens, with the caches that contain them."""
        return replace(self, self_caches=self_caches, length=self.length + new)

    def positions(self, new: int) -> Int[Tensor, "row new"] | None:
        """The position of each new token, padding not counted; None if there is no padding."""
        return positions_after_padding(self.left_padding, self.length, new)

    def mask(self, new: int) -> Mask:
        """A new token sees itself and the real tokens before it."""
        if self.left_padding is None:
            return causal()
        slots = torch.arange(self.length + new, device=self.left_padding.device)
        return causal() & padding(slots >= self.left_padding[:, None])


def positions_after_padding(
    left_padding: Rows | None, start: int, new: int
) -> Int[Tensor, "row new"] | None:
    """The positions of tokens start .. start + new - 1, counted from each row's first real token.

    None if there is no padding, where they are start, start + 1, ... in every row.
    """
    if left_padding is None:
        return None
    slots = torch.arange(start, start + new, device=left_padding.device)
    return (slots - left_padding[:, None]).clamp_min(0)


def keeps_all_rows(rows: Rows, count: int) -> bool:
    """True if `rows` is 0 .. count - 1, so that selecting changes nothing; an error if empty."""
    if not len(rows):
        raise InputError("expected at least one row to go on with, got none")
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))


def check_new_tokens(tokens: Tensor, rows: int) -> None:
    """Raise a ShapeError unless there are new tokens for each row of a state."""
    if tokens.dim() != 2 or len(tokens) != rows:
        raise ShapeError(
            f"expected new tokens for each of the {rows} rows of this state, ({rows}, new), "
            f"got {tuple(tokens.shape)}"
        )


def count_left_padding(real: Bool[Tensor, "row length"] | None) -> Rows | None:
    """The number of padding tokens on the left of each row; None if no row is padded.

    An InputError if there is padding anywhere else, or a row of padding alone.
    """
    if real is None:
        return None
    counts = (~real).sum(dim=1)
    slots = torch.arange(real.shape[1], device=real.device)
    if not torch.equal(real, slots >= counts[:, None]):
        raise InputError(
            "expected prompts padded on their left, got padding elsewhere; "
            "use a tokenizer with padding_side='left'"
        )
    if bool((counts == real.shape[1]).any()):
        raise InputError("expected at least one token in each prompt, got one of padding alone")
    return counts


def _depends_on_position(attention: MultiHeadAttention) -> bool:
    """True if the result depends on the query's position: rotary positions, a bias or a mask."""
    mechanism = attention.mechanism
    independent = mechanism.bias is None and mechanism.mask == everything()
    return attention.rotary is not None or not independent


def _copy_to_buffer(side: Tensor, capacity: int, rows: Rows | None = None) -> Buffer:
    """Keys or values, of all rows or of some, in a new buffer with room for `capacity` positions.

    In memory the positions of a row lie next to each other, heads inside.
    """
    batch, heads, length, dim = side.shape
    batch = batch if rows is None else len(rows)
    buffer = side.new_empty(batch, capacity, heads, dim)
    old = side.transpose(1, 2)
    if rows is None:
        buffer[:, :length] = old
    elif length:
        torch.index_select(old, 0, rows, out=buffer[:, :length])
    return buffer.transpose(1, 2)
