"""Decoding steps, observed one query after the other, each over one key more than the one before.

`observe` allocates a tensor for each of its results, which takes longer than a step itself. Here
the numbers of all steps lie in buffers that grow, and C++ (`cpp/observe/one_query.cpp`) writes into
them: the statistics of the row, and copies of the query and of the newest key. It also makes sure
that the keys go on where the step before ended. Whatever is not as simple as that is left to
`observe`: a mask, several examples, a row without a softmax.

    >>> import torch
    >>> from regard.kernels.observe.one_query import QueryRows
    >>> key = torch.randn(1, 2, 7, 4)  # 2 heads, 7 keys
    >>> rows = QueryRows.after(key[:, :, :5], heads=2, value_dim=4, scale=0.5)
    >>> if rows is not None:  # None where the library is not compiled
    ...     for seen in (key[:, :, :6], key):
    ...         context = rows.observe(torch.randn(1, 2, 1, 4), seen, seen)
    ...     assert rows.observation().statistics.entropy.shape == (1, 2, 2)
"""

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.library import library, native_enabled
from regard.kernels.memory import inside_transform, operations_are_followed
from regard.kernels.observe.call import Scoring
from regard.kernels.observe.native import KINDS
from regard.kernels.observe.observation import Observation, Statistics
from regard.masks import causal

__all__ = ["QueryRows"]

_FIELDS = struct.Struct("@3P5q5q5Pd2q")  # those of `OneQuery` in cpp/observe/one_query.h
_NUMBERS = 12  # of each row and head: the logsumexp, ten statistics, and the largest key
_OBSERVED = 0  # the code of `StepOutcome`
_FIRST_CAPACITY = 32


@cache
def _native_function() -> Callable[[bytes], int] | None:
    """The function of the library; None if there is no library, or an older one."""
    function: Any = getattr(library(), "regard_observe_one_query", None)
    layout: Any = getattr(library(), "regard_one_query_layout", None)
    if function is None or layout is None or layout() != _FIELDS.size:
        return None
    function.argtypes = [ctypes.c_char_p]
    found: Callable[[bytes], int] = function
    return found


class QueryRows:
    """The queries of decoding steps of one example, and the numbers of their rows.

    `count` is how many there are, and `keys` how many keys the last of them saw.
    """

    def __init__(
        self, last_key: Float[Tensor, "key_head dim"], heads: int, value_dim: int, scale: float
    ) -> None:
        self.count, self.keys, self.first_position = 0, 0, 0
        self._heads, self._value_dim, self._scale = heads, value_dim, scale
        self._key_heads, self._dim = last_key.shape
        self._dtype = last_key.dtype
        self._sizes = (heads, self._key_heads)
        self._capacity = 0
        self._numbers = self._queries = self._keys = last_key.new_empty(0)
        self._last_key = last_key.contiguous()
        self._grow()

    @classmethod
    def after(
        cls,
        key: Float[Tensor, "1 key_head key dim"],
        heads: int,
        value_dim: int,
        scale: float | None = None,
    ) -> "QueryRows | None":
        """No rows yet, after a call that ended with these keys; None if C++ cannot do it."""
        function = _native_function() if native_enabled() else None
        if function is None or key.dtype not in KINDS or not key.is_cpu or heads % key.shape[1]:
            return None
        scale = key.shape[3] ** -0.5 if scale is None else scale
        rows = cls(key[0, :, -1].detach().clone(), heads, value_dim, scale)
        rows.keys = rows.first_position = key.shape[2]
        rows._function = function
        return rows

    _function: Callable[[bytes], int]

    def fits(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> bool:
        """True if a call is the next step: by types, sizes, strides and scale."""
        dtype, keys = self._dtype, self.keys + 1
        own_scale = self._dim**-0.5 if scale is None else scale
        return (
            query.shape == (1, self._heads, 1, self._dim)
            and key.shape == (1, self._key_heads, keys, self._dim)
            and value.shape == (1, self._key_heads, keys, self._value_dim)
            and query.dtype == key.dtype == value.dtype == dtype
            and query.is_cpu
            and key.is_cpu
            and value.is_cpu
            and query.stride(3) == key.stride(3) == value.stride(3) == 1
            and own_scale == self._scale
            and not (query.is_neg() or key.is_neg() or value.is_neg())
            and not (operations_are_followed() or inside_transform())
        )

    def observe(
        self, query: Tensor, key: Tensor, value: Tensor, *, context: bool = True
    ) -> Float[Tensor, "1 head 1 value_dim"] | None:
        """Observe the next step; None if its keys do not go on, or its row has no softmax.

        Without `context`, the tensor that is returned has no numbers.
        """
        if self.count == self._capacity:
            self._grow()
        heads, key_heads = self._sizes
        out = torch.empty((1, 1, heads, self._value_dim), dtype=self._dtype)
        _, key_stride, key_row, _ = key.stride()
        _, value_stride, value_row, _ = value.stride()
        count, itemsize = self.count, out.itemsize
        row = key_heads * self._dim * itemsize
        newest = self._key_address + count * row
        outcome = self._function(
            _FIELDS.pack(
                query.data_ptr(),
                key.data_ptr(),
                value.data_ptr(),
                query.stride(1),
                key_stride,
                key_row,
                value_stride,
                value_row,
                heads,
                key_heads,
                self.keys + 1,
                self._dim,
                self._value_dim,
                out.data_ptr() if context else 0,
                self._number_address + count * _NUMBERS * heads * 4,
                newest - row if count else self._last_key.data_ptr(),
                self._query_address + count * heads * self._dim * itemsize,
                newest,
                self._scale,
                KINDS[self._dtype],
                torch.get_num_threads(),
            )
        )
        if outcome != _OBSERVED:
            return None
        self.count, self.keys = count + 1, self.keys + 1
        return out.transpose(1, 2)

    def _grow(self) -> None:
        """Double the room for rows."""
        capacity = 2 * self._capacity or _FIRST_CAPACITY
        number = torch.empty(capacity, _NUMBERS, self._heads)
        query = torch.empty(capacity, self._heads, self._dim, dtype=self._dtype)
        key = torch.empty(capacity, self._key_heads, self._dim, dtype=self._dtype)
        if self.count:
            for new, old in ((number, self._numbers), (query, self._queries), (key, self._keys)):
                new[: self.count] = old[: self.count]
        self._numbers, self._queries, self._keys, self._capacity = number, query, key, capacity
        self._number_address, self._query_address = number.data_ptr(), query.data_ptr()
        self._key_address = key.data_ptr()

    @property
    def queries(self) -> Float[Tensor, "1 head query dim"]:
        """The queries of all steps."""
        return self._queries[: self.count].transpose(0, 1)[None].contiguous()

    @property
    def new_keys(self) -> Float[Tensor, "1 key_head query dim"]:
        """The newest key of each step."""
        return self._keys[: self.count].transpose(0, 1)[None].contiguous()

    def observation(self) -> Observation:
        """What was observed of all rows, as of one call with a causal mask."""
        # (row, number, head) to (number, 1, head, row)
        lse, *numbers = self._numbers[: self.count].permute(1, 2, 0)[:, None].contiguous().unbind()
        numbers[-1] = numbers[-1].view(torch.int32)
        entropy, largest, distance, first, own, previous, following, future, padding, sink, key = (
            numbers
        )
        statistics = Statistics(
            entropy,
            largest,
            key,
            distance,
            first,
            own,
            previous,
            following,
            future,
            padding,
            sink,
        )
        scoring = Scoring(scale=self._scale, mask=causal(), offset=self.first_position)
        return Observation(None, lse, statistics, None, None, scoring)
