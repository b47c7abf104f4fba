"""The state of decoding: all that a Transformer remembers of what its rows have read."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention import KeyValueCache
from regard.errors import InputError, ShapeError
from regard.masks import Mask, causal, padding
from regard.models.transformer.memory import Growing, Memory

Rows = Int[Tensor, " row"]


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
