"""Attention with learned projections: one head or many, self or cross, with a cache as a value."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.mechanism import Mechanism, attend, weights
from regard.attention.positions import Rotary
from regard.errors import InputError
from regard.masks import Mask

Sequences = Float[Tensor, "*batch query dim"]
Others = Float[Tensor, "*batch key key_dim"]


@dataclass(frozen=True)
class KeyValueCache:
    """The projected keys and values of what was read so far, ready to be attended to."""

    key: Float[Tensor, "batch key_head key head_dim"]
    value: Float[Tensor, "batch key_head key head_dim"]

    @property
    def length(self) -> int:
        """How many positions it holds."""
        return self.key.shape[2]

    def extended(self, new: "KeyValueCache") -> "KeyValueCache":
        """This cache followed by the new one; itself unchanged."""
        return KeyValueCache(
            torch.cat([self.key, new.key], dim=2), torch.cat([self.value, new.value], dim=2)
        )


class SingleHeadAttention(nn.Module):
    """Attention between two sequences of different widths: attend(W_Q x, W_K y, W_V y).

    >>> import torch
    >>> from regard.attention import SingleHeadAttention
    >>> reader = SingleHeadAttention(query_dim=5, key_dim=7, dim=3)
    >>> reader(torch.randn(2, 11, 5), torch.randn(2, 13, 7)).shape
    torch.Size([2, 11, 3])
    """

    def __init__(
        self, query_dim: int, key_dim: int, dim: int, mechanism: Mechanism | None = None
    ) -> None:
        super().__init__()
        self.w_q = nn.Linear(query_dim, dim, bias=False)
        self.w_k = nn.Linear(key_dim, dim, bias=False)
        self.w_v = nn.Linear(key_dim, dim, bias=False)
        self.mechanism = Mechanism() if mechanism is None else mechanism

    def forward(
        self,
        query: Float[Tensor, "*batch query query_dim"],
        key: Others,
        value: Others | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "*batch query dim"]:
        """The context of each query; without a value, that of the key."""
        value = key if value is None else value
        return attend(self.w_q(query), self.w_k(key), self.w_v(value), self.mechanism, mask)

    def weights(
        self, query: Float[Tensor, "*batch query query_dim"], key: Others, mask: Mask | None = None
    ) -> Float[Tensor, "*batch query key"]:
        """How much each query looks at each key."""
        return weights(self.w_q(query), self.w_k(key), self.mechanism, mask)


class MultiHeadAttention(nn.Module):
    """Several heads side by side: Concat(head_1, ..., head_h) W_O (Vaswani et al. 2017, 3.2.2).

    With fewer `key_heads` than heads it is grouped-query attention (Ainslie et al. 2023), with one
    multi-query attention (Shazeer 2019). Without a key it is self-attention. `rotary` turns the
    queries and keys of each head.

    >>> import torch
    >>> from regard.attention import MultiHeadAttention
    >>> attention = MultiHeadAttention(512, 8)
    >>> attention(torch.randn(2, 10, 512)).shape
    torch.Size([2, 10, 512])
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        key_heads: int | None = None,
        key_dim: int | None = None,
        mechanism: Mechanism | None = None,
        rotary: Rotary | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        key_heads = heads if key_heads is None else key_heads
        _check_heads(dim, heads, key_heads)
        key_dim = dim if key_dim is None else key_dim
        shared = dim // heads * key_heads
        self.heads, self.key_heads = heads, key_heads
        self.w_q = nn.Linear(dim, dim, bias=bias)
        self.w_k = nn.Linear(key_dim, shared, bias=bias)
        self.w_v = nn.Linear(key_dim, shared, bias=bias)
        self.w_o = nn.Linear(dim, dim, bias=bias)
        self.mechanism = Mechanism() if mechanism is None else mechanism
        self.rotary = rotary

    def forward(
        self,
        query: Sequences,
        key: Others | None = None,
        value: Others | None = None,
        mask: Mask | None = None,
    ) -> Sequences:
        """The new vector of each query."""
        return self.read(query, self.project(query if key is None else key, value), mask)

    def project(
        self, key: Others, value: Others | None = None, *, offset: int = 0
    ) -> KeyValueCache:
        """Keys and values ready for `read`, the first of them at position `offset`."""
        keys = _split(self.w_k(key), self.key_heads)
        values = _split(self.w_v(key if value is None else value), self.key_heads)
        return KeyValueCache(keys if self.rotary is None else self.rotary(keys, offset), values)

    def read(
        self, query: Sequences, memory: KeyValueCache, mask: Mask | None = None, *, offset: int = 0
    ) -> Sequences:
        """The new vector of each query, from keys and values projected before."""
        queries = self._queries(query, offset)
        context = attend(queries, memory.key, memory.value, self.mechanism, mask, offset=offset)
        merged: Tensor = self.w_o(context.transpose(1, 2).flatten(2))
        return merged if query.dim() == 3 else merged[0]

    def step(
        self, query: Sequences, past: KeyValueCache | None = None, mask: Mask | None = None
    ) -> tuple[Sequences, KeyValueCache]:
        """Self-attention of new tokens over the past and themselves, and the past extended."""
        offset = 0 if past is None else past.length
        new = self.project(query, offset=offset)
        memory = new if past is None else past.extended(new)
        return self.read(query, memory, mask, offset=offset), memory

    def weights(
        self, query: Sequences, key: Others | None = None, mask: Mask | None = None
    ) -> Float[Tensor, "*batch head query key"]:
        """How much each query looks at each key, for each head."""
        memory = self.project(query if key is None else key)
        seen = weights(self._queries(query, 0), memory.key, self.mechanism, mask)
        return seen if query.dim() == 3 else seen[0]

    def extra_repr(self) -> str:
        """The heads."""
        return f"heads={self.heads}, key_heads={self.key_heads}"

    def _queries(self, query: Sequences, offset: int) -> Float[Tensor, "batch head query head_dim"]:
        queries = _split(self.w_q(query), self.heads)
        if self.rotary is None:
            return queries
        turned: Tensor = self.rotary(queries, offset)
        return turned


def _split(
    joined: Float[Tensor, "*batch length dim"], heads: int
) -> Float[Tensor, "batch head length head_dim"]:
    joined = joined if joined.dim() == 3 else joined[None]
    batch, length, _ = joined.shape
    return joined.view(batch, length, heads, -1).transpose(1, 2)


def _check_heads(dim: int, heads: int, key_heads: int) -> None:
    if heads < 1 or key_heads < 1:
        raise InputError(f"expected at least one head, got heads={heads}, key_heads={key_heads}")
    if dim < 1 or dim % heads:
        raise InputError(f"dim should be a multiple of heads, got dim={dim}, heads={heads}")
    if heads % key_heads:
        raise InputError(
            f"heads should be a multiple of key_heads, got heads={heads}, key_heads={key_heads}"
        )
