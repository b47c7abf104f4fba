"""Attention layers with learned projections: one or many heads, self- or cross-attention.

The key-value cache of decoding is a value that is passed in and returned; no layer keeps one.
"""

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
    """The projected keys and values of all positions so far, ready to be attended to."""

    key: Float[Tensor, "batch key_head key head_dim"]
    value: Float[Tensor, "batch key_head key head_dim"]

    @property
    def length(self) -> int:
        """The number of positions in the cache."""
        return self.key.shape[2]

    def extended(self, new: "KeyValueCache") -> "KeyValueCache":
        """A new cache with the positions of `new` appended; this one is not changed."""
        return KeyValueCache(
            torch.cat([self.key, new.key], dim=2), torch.cat([self.value, new.value], dim=2)
        )


class Projected(NamedTuple):
    """Projected queries split into heads, and the projected keys and values they attend to."""

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
        """The context of each query; without `value`, the key is projected to values too."""
        value = key if value is None else value
        return attend(self.w_q(query), self.w_k(key), self.w_v(value), self.mechanism, mask)

    def weights(
        self, query: Float[Tensor, "*batch query query_dim"], key: Others, mask: Mask | None = None
    ) -> Float[Tensor, "*batch query key"]:
        """The attention weights of each query over the keys."""
        return weights(self.w_q(query), self.w_k(key), self.mechanism, mask)


class MultiHeadAttention(nn.Module):
    """Several heads side by side: Concat(head_1, ..., head_h) W_O (Vaswani et al. 2017, 3.2.2).

    With fewer `key_heads` than heads it is grouped-query attention (Ainslie et al. 2023), with one
    multi-query attention (Shazeer 2019). Called without a key it is self-attention. `rotary`
    rotates the queries and keys of each head by their positions.

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
        key_width = dim // heads * key_heads
        self.heads, self.key_heads = heads, key_heads
        self.w_q = nn.Linear(dim, dim, bias=bias)
        self.w_k = nn.Linear(key_dim, key_width, bias=bias)
        self.w_v = nn.Linear(key_dim, key_width, bias=bias)
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
        """The output vector of each query; the first query stands at position `offset`.

        `key` may also be a cache of projected keys and values, or the result of `project_all`.
        """
        queries, memory = self._project_inputs(query, key, value, offset)
        context = attend(queries, memory.key, memory.value, self.mechanism, mask, offset=offset)
        merged: Tensor = self.w_o(context.transpose(1, 2).flatten(2))
        return merged if query.dim() == 3 else merged[0]

    def project(
        self, key: Others, value: Others | None = None, *, offset: int = 0
    ) -> KeyValueCache:
        """The projected keys and values for `read`; the first key stands at position `offset`."""
        keys = _split_heads(self.w_k(key), self.key_heads)
        values = _split_heads(self.w_v(key if value is None else value), self.key_heads)
        return KeyValueCache(keys if self.rotary is None else self.rotary(keys, offset), values)

    def project_all(self, query: Sequences, *, offset: int = 0) -> Projected:
        """Queries, keys and values of self-attention, by one matrix product after `pack`."""
        packed = self._side_by_side()
        if packed is None:
            queries = self._project_queries(query, offset)
            return Projected(queries, self.project(query, offset=offset))
        joined = _split_heads(F.linear(query, *packed), self.heads + 2 * self.key_heads)
        # queries and keys stay together for the rotation, which values do not take part in
        rotated, values = joined.split([self.heads + self.key_heads, self.key_heads], dim=1)
        if self.rotary is not None:
            rotated = self.rotary(rotated, offset)
        queries, keys = rotated.split([self.heads, self.key_heads], dim=1)
        return Projected(queries, KeyValueCache(keys, values))

    def read(
        self, query: Sequences, memory: KeyValueCache, mask: Mask | None = None, *, offset: int = 0
    ) -> Sequences:
        """The output vector of each query over keys and values that `project` returned."""
        output: Tensor = self(query, memory, mask=mask, offset=offset)
        return output

    def step(
        self, query: Sequences, past: KeyValueCache | None = None, mask: Mask | None = None
    ) -> tuple[Sequences, KeyValueCache]:
        """Self-attention of new tokens over the cache and themselves, and the extended cache."""
        offset = 0 if past is None else past.length
        queries, new = self.project_all(query, offset=offset)
        memory = new if past is None else past.extended(new)
        context: Tensor = self(query, Projected(queries, memory), mask=mask, offset=offset)
        return context, memory

    def pack(self) -> None:
        """Store W_Q, W_K and W_V in one tensor, so that one product applies all three in inference.

        The parameters become views of that tensor and keep their names and values. Once one of them
        is moved (to another device or dtype, for example), three products are computed again.
        """
        linears = [self.w_q, self.w_k, self.w_v]
        # subclasses of Linear and parametrised weights compute something else than x W^T + b
        plain = all(
            type(linear) is nn.Linear and type(linear.weight) is nn.Parameter for linear in linears
        )
        layouts = {(w.shape[1], w.dtype, w.device) for w in (linear.weight for linear in linears)}
        if not plain or len(layouts) > 1 or self._side_by_side(with_gradient=True) is not None:
            return
        biased = self.w_q.bias is not None
        with torch.inference_mode(False):  # the parameters may be trained again
            self._packed = (
                _pack([linear.weight for linear in linears]),
                _pack([linear.bias for linear in linears]) if biased else None,
            )

    def weights(
        self, query: Sequences, key: Others | None = None, mask: Mask | None = None
    ) -> Float[Tensor, "*batch head query key"]:
        """The attention weights of each head and query over the keys."""
        memory = self.project(query if key is None else key)
        per_head = weights(self._project_queries(query, 0), memory.key, self.mechanism, mask)
        return per_head if query.dim() == 3 else per_head[0]

    def extra_repr(self) -> str:
        """The numbers of query and key heads."""
        return f"heads={self.heads}, key_heads={self.key_heads}"

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_packed": None,
        }  # the parameters of a copy are separate tensors again

    def _side_by_side(self, *, with_gradient: bool = False) -> tuple[Matrix, Vector | None] | None:
        """The packed weight and bias of W_Q, W_K, W_V; None if three products must be computed.

        That is the case if the layers were never packed or have been replaced or moved since, if
        they have forward hooks (which one product would not call), while compiling, and where
        gradients are recorded unless `with_gradient` is set: they would not reach the parameters.
        """
        if self._packed is None or torch.compiler.is_compiling():
            return None
        if torch.is_grad_enabled() and not with_gradient:
            return None
        linears = (self.w_q, self.w_k, self.w_v)
        if any(
            type(linear) is not nn.Linear or linear._forward_hooks or linear._forward_pre_hooks
            for linear in linears
        ):
            return None
        weight, bias = self._packed
        if _are_views_of(weight, linears, "weight") and (
            bias is None or _are_views_of(bias, linears, "bias")
        ):
            return self._packed
        self._packed = None
        return None

    def _project_inputs(
        self,
        query: Sequences,
        key: Others | KeyValueCache | Projected | None,
        value: Others | None,
        offset: int,
    ) -> Projected:
        """Queries, keys and values for `attend`, projecting only what was not projected before."""
        if isinstance(key, Projected):
            return key
        if isinstance(key, KeyValueCache):
            return Projected(self._project_queries(query, offset), key)
        if key is None and value is None:
            return self.project_all(query, offset=offset)
        key = query if key is None else key
        return Projected(self._project_queries(query, offset), self.project(key, value))

    def _project_queries(self, query: Sequences, offset: int) -> Heads:
        """W_Q x split into heads, and rotated if the layer has rotary positions."""
        queries = _split_heads(self.w_q(query), self.heads)
        if self.rotary is None:
            return queries
        rotated: Tensor = self.rotary(queries, offset)
        return rotated


def _split_heads(
    joined: Float[Tensor, "*batch length dim"], heads: int
) -> Float[Tensor, "batch head length head_dim"]:
    """The last axis cut into heads; a missing batch axis is added."""
    joined = joined if joined.dim() == 3 else joined[None]
    batch, length, _ = joined.shape
    return joined.view(batch, length, heads, -1).transpose(1, 2)


def _pack(parts: list[Tensor]) -> Tensor:
    """The parts concatenated along the first axis; each part becomes a view of the result."""
    packed = torch.cat([part.detach() for part in parts])
    for part, view in zip(parts, packed.split([len(part) for part in parts]), strict=True):
        part.data = view
    return packed


def _are_views_of(packed: Tensor, linears: tuple[nn.Linear, ...], name: str) -> bool:
    """True if the named parameters still lie in `packed`, one after another."""
    address = packed.data_ptr()
    for linear in linears:
        part = getattr(linear, name)
        if part is None or part.data_ptr() != address or part.dtype != packed.dtype:
            return False
        address += part.nbytes
    return True


def _check_heads(dim: int, heads: int, key_heads: int) -> None:
    """Raise an InputError unless `dim` divides into heads, and heads into groups."""
    if heads < 1 or key_heads < 1:
        raise InputError(f"expected at least one head, got heads={heads}, key_heads={key_heads}")
    if dim < 1 or dim % heads:
        raise InputError(f"dim should be a multiple of heads, got dim={dim}, heads={heads}")
    if heads % key_heads:
        raise InputError(
            f"heads should be a multiple of key_heads, got heads={heads}, key_heads={key_heads}"
        )
