"""Attention with learned projections: one head or many, self or cross, with a cache as a value."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.mechanism import Mechanism, attend, weights
from regard.attention.normalizers import RowSum
from regard.attention.positions import Rotary
from regard.errors import InputError
from regard.masks import Mask

Sequences = Float[Tensor, "*batch query dim"]
Others = Float[Tensor, "*batch key key_dim"]
Heads = Float[Tensor, "batch head query head_dim"]
Matrix = Float[Tensor, "rows columns"]
Vector = Float[Tensor, " rows"]


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


class Projected(NamedTuple):
    """Queries split into heads, and what they look at."""

    query: Heads
    memory: KeyValueCache


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

    @property
    def row_sum(self) -> RowSum:
        """What the weights of a row that sees a key sum to: declared by the mechanism."""
        return self.mechanism.row_sum

    @property
    def one_hot(self) -> bool:
        """True if one key of each row gets all the weight: declared by the mechanism."""
        return self.mechanism.one_hot

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
        self._packed: tuple[Matrix, Vector | None] | None = None

    @property
    def row_sum(self) -> RowSum:
        """What the weights of a row that sees a key sum to: declared by the mechanism."""
        return self.mechanism.row_sum

    @property
    def one_hot(self) -> bool:
        """True if one key of each row gets all the weight: declared by the mechanism."""
        return self.mechanism.one_hot

    def forward(
        self,
        query: Sequences,
        key: Others | KeyValueCache | Projected | None = None,
        value: Others | None = None,
        mask: Mask | None = None,
        *,
        offset: int = 0,
    ) -> Sequences:
        """The new vector of each query; the first of them stands at position `offset`.

        The key may be what was projected before.
        """
        queries, memory = self._projected(query, key, value, offset)
        context = attend(queries, memory.key, memory.value, self.mechanism, mask, offset=offset)
        merged: Tensor = self.w_o(context.transpose(1, 2).flatten(2))
        return merged if query.dim() == 3 else merged[0]

    def project(
        self, key: Others, value: Others | None = None, *, offset: int = 0
    ) -> KeyValueCache:
        """Keys and values ready for `read`, the first of them at position `offset`."""
        keys = _split(self.w_k(key), self.key_heads)
        values = _split(self.w_v(key if value is None else value), self.key_heads)
        return KeyValueCache(keys if self.rotary is None else self.rotary(keys, offset), values)

    def project_all(self, query: Sequences, *, offset: int = 0) -> Projected:
        """Queries, keys and values of self-attention; packed, they are one product."""
        packed = self._side_by_side()
        if packed is None:
            return Projected(self._queries(query, offset), self.project(query, offset=offset))
        joined = _split(F.linear(query, *packed), self.heads + 2 * self.key_heads)
        turned, values = joined.split([self.heads + self.key_heads, self.key_heads], dim=1)
        if self.rotary is not None:
            turned = self.rotary(turned, offset)
        queries, keys = turned.split([self.heads, self.key_heads], dim=1)
        return Projected(queries, KeyValueCache(keys, values))

    def read(
        self, query: Sequences, memory: KeyValueCache, mask: Mask | None = None, *, offset: int = 0
    ) -> Sequences:
        """The new vector of each query, from keys and values projected before."""
        read: Tensor = self(query, memory, mask=mask, offset=offset)
        return read

    def step(
        self, query: Sequences, past: KeyValueCache | None = None, mask: Mask | None = None
    ) -> tuple[Sequences, KeyValueCache]:
        """Self-attention of new tokens over the past and themselves, and the past extended."""
        offset = 0 if past is None else past.length
        queries, new = self.project_all(query, offset=offset)
        memory = new if past is None else past.extended(new)
        context: Tensor = self(query, Projected(queries, memory), mask=mask, offset=offset)
        return context, memory

    def pack(self) -> None:
        """Lay W_Q, W_K, W_V side by side in memory, to be one product where no gradient is wanted.

        The parameters stay what they are; moved elsewhere they are three products again.
        """
        linears = [self.w_q, self.w_k, self.w_v]
        plain = all(type(e) is nn.Linear and type(e.weight) is nn.Parameter for e in linears)
        kinds = {(each.weight.shape[1], each.weight.dtype, each.weight.device) for each in linears}
        if not plain or len(kinds) > 1 or self._side_by_side(asked=True) is not None:
            return
        biased = self.w_q.bias is not None
        with torch.inference_mode(False):  # the parameters may be trained again
            self._packed = (
                _pack([each.weight for each in linears]),
                _pack([each.bias for each in linears]) if biased else None,
            )

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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}  # a copy's parameters lie apart

    def _side_by_side(self, *, asked: bool = False) -> tuple[Matrix, Vector | None] | None:
        """W_Q, W_K, W_V as one matrix if they still are, and nobody wants to see them apart."""
        if self._packed is None or torch.compiler.is_compiling():
            return None
        if torch.is_grad_enabled() and not asked:
            return None
        linears = (self.w_q, self.w_k, self.w_v)
        if any(
            type(e) is not nn.Linear or e._forward_hooks or e._forward_pre_hooks for e in linears
        ):
            return None
        weight, bias = self._packed
        if _lie_in(weight, linears, "weight") and (bias is None or _lie_in(bias, linears, "bias")):
            return self._packed
        self._packed = None
        return None

    def _projected(
        self,
        query: Sequences,
        key: Others | KeyValueCache | Projected | None,
        value: Others | None,
        offset: int,
    ) -> Projected:
        if isinstance(key, Projected):
            return key
        if isinstance(key, KeyValueCache):
            return Projected(self._queries(query, offset), key)
        if key is None and value is None:
            return self.project_all(query, offset=offset)
        key = query if key is None else key
        return Projected(self._queries(query, offset), self.project(key, value))

    def _queries(self, query: Sequences, offset: int) -> Heads:
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


def _pack(parts: list[Tensor]) -> Tensor:
    """The parts one under the other in one tensor, of which they become views."""
    packed = torch.cat([part.detach() for part in parts])
    for part, place in zip(parts, packed.split([len(part) for part in parts]), strict=True):
        part.data = place
    return packed


def _lie_in(packed: Tensor, linears: tuple[nn.Linear, ...], name: str) -> bool:
    place = packed.data_ptr()
    for each in linears:
        part = getattr(each, name)
        if part is None or part.data_ptr() != place or part.dtype != packed.dtype:
            return False
        place += part.nbytes
    return True


def _check_heads(dim: int, heads: int, key_heads: int) -> None:
    if heads < 1 or key_heads < 1:
        raise InputError(f"expected at least one head, got heads={heads}, key_heads={key_heads}")
    if dim < 1 or dim % heads:
        raise InputError(f"dim should be a multiple of heads, got dim={dim}, heads={heads}")
    if heads % key_heads:
        raise InputError(
            f"heads should be a multiple of key_heads, got heads={heads}, key_heads={key_heads}"
        )
