"""The largest numbers of each row, and the logarithm of the sum of its exponentials, natively."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.library import library, wanted

Numbers = Float[Tensor, "row column"]

_MOST = 64  # of each row; for more, sorting is quicker
_FEWEST = 1024  # columns


class _Functions(NamedTuple):
    totals: Callable[..., None]
    largest: Callable[..., None]


@cache
def functions() -> _Functions | None:
    """The native functions, or None where they are not built."""
    found = library() if wanted() else None
    totals, largest = (getattr(found, f"regard_{name}", None) for name in ("totals", "largest"))
    if totals is None or largest is None:
        return None
    totals.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3
    largest.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 4
    totals.restype = largest.restype = None
    return _Functions(totals, largest)


def takes_numbers(numbers: Tensor, count: int = 1) -> bool:
    """Whether the native kernel is there and takes these; `count` is how many are asked for."""
    fits = numbers.dtype == torch.float32 and numbers.device.type == "cpu"
    fits = fits and numbers.is_contiguous() and not numbers.requires_grad
    return fits and numbers.shape[1] >= _FEWEST and count <= _MOST and functions() is not None


def log_totals(numbers: Numbers) -> Float[Tensor, " row"]:
    """log sum exp of each row."""
    run = functions()
    assert run is not None
    totals = numbers.new_empty(numbers.shape[0])
    place = (numbers.data_ptr(), totals.data_ptr())
    run.totals(*place, *numbers.shape, torch.get_num_threads())
    return totals


def largest(
    numbers: Numbers, count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The largest of each row in falling order, and where they are; of equals the first."""
    run = functions()
    assert run is not None
    values = numbers.new_empty(numbers.shape[0], count)
    places = torch.empty(values.shape, dtype=torch.long)
    run.largest(
        numbers.data_ptr(),
        values.data_ptr(),
        places.data_ptr(),
        *numbers.shape,
        count,
        torch.get_num_threads(),
    )
    return values, places
