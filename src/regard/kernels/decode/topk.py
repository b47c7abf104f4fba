"""The k largest values of each row, and each row's logsumexp, computed natively.

Generation asks for both over the vocabulary at every step.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.library import library, native_enabled
from regard.kernels.memory import has_plain_memory

Values = Float[Tensor, "row column"]

_MAX_COUNT = 64  # for more values of a row, sorting is faster
_MIN_COLUMNS = 1024  # for shorter rows, torch is as fast


class _Functions(NamedTuple):
    """The two C++ functions of this module, with their argument types set."""

    logsumexp: Callable[..., None]
    topk: Callable[..., None]


@cache
def load_topk() -> _Functions | None:
    """The C++ functions; None if the library is missing or disabled."""
    loaded = library() if native_enabled() else None
    logsumexp, topk = (getattr(loaded, f"regard_{name}", None) for name in ("logsumexp", "topk"))
    if logsumexp is None or topk is None:
        return None
    logsumexp.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3
    topk.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 4
    logsumexp.restype = topk.restype = None
    return _Functions(logsumexp, topk)


def supports_topk(values: Tensor, count: int = 1) -> bool:
    """True if the native functions are built and take these rows and this many values of each."""
    fits = values.dtype == torch.float32 and values.device.type == "cpu"
    fits = fits and values.is_contiguous() and not values.requires_grad and not values.is_neg()
    fits = fits and values.shape[1] >= _MIN_COLUMNS and 1 <= count <= _MAX_COUNT
    return fits and has_plain_memory(values) and load_topk() is not None


def native_logsumexp(values: Values) -> Float[Tensor, " row"]:
    """log sum exp of each row; call it only if `supports_topk(values)`."""
    functions = load_topk()
    assert functions is not None
    totals = values.new_empty(values.shape[0])
    pointers = (values.data_ptr(), totals.data_ptr())
    functions.logsumexp(*pointers, *values.shape, torch.get_num_threads())
    return totals


def native_topk(
    values: Values, count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The largest values of each row in falling order and their columns; of equals the first.

    NaN counts as larger than any number, as in torch.topk.

    Call it only if `supports_topk(values, count)`.
    """
    functions = load_topk()
    assert functions is not None
    largest = values.new_empty(values.shape[0], count)
    columns = torch.empty(largest.shape, dtype=torch.long)
    functions.topk(
        values.data_ptr(),
        largest.data_ptr(),
        columns.data_ptr(),
        *values.shape,
        count,
        torch.get_num_threads(),
    )
    return largest, columns
