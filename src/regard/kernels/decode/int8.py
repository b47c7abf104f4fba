"""The product of a few rows with a matrix of 8-bit integers, x (scale W)^T + b, computed natively.

Each row of W has its own scale, so a matrix takes a quarter of the memory that float32 takes, and
a quarter of the time to read.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float, Int8
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.decode.matvec import run_matvec
from regard.kernels.library import library, native_enabled
from regard.kernels.memory import has_plain_memory

# Sums of products of two bytes are int32: with more columns they could overflow.
MAX_INT8_COLUMNS = 1 << 17


@cache
def load_int8_matvec() -> Callable[..., None] | None:
    """The C++ function for int8 matrices; None if the library is missing or disabled."""
    function = getattr(library() if native_enabled() else None, "regard_matvec_int8", None)
    if function is not None:
        function.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 4
        function.restype = None
    return function


def supports_int8_matvec(weight: Tensor, scale: Tensor) -> bool:
    """True if `native_int8_matvec` is built and takes this matrix: int8, contiguous, on the CPU."""
    fits = weight.dtype == torch.int8 and scale.dtype == torch.float32
    fits = fits and weight.device.type == scale.device.type == "cpu" and not scale.is_neg()
    fits = fits and weight.is_contiguous() and scale.is_contiguous()
    fits = fits and weight.shape[1] <= MAX_INT8_COLUMNS and has_plain_memory(weight, scale)
    return fits and load_int8_matvec() is not None


def native_int8_matvec(
    x: Float[Tensor, "row dim"],
    weight: Int8[Tensor, "out dim"],
    scale: Float[Tensor, " out"],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """x (scale W)^T + b; each row of x is rounded to int8 too, scaled by its largest magnitude.

    Call it only if `supports_int8_matvec(weight, scale)`. Rows without plain memory, such as those
    of a FakeTensorMode, are multiplied by torch.
    """
    if not has_plain_memory(x, bias):
        return F.linear(x, weight.to(x.dtype) * scale[:, None], bias)
    return run_matvec(load_int8_matvec(), x, (weight, scale), bias)
