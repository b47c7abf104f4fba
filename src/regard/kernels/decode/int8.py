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

from regard.kernels.decode.matvec import run_matvec
from regard.kernels.library import library, native_enabled


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
    fits = fits and weight.device.type == "cpu" and weight.is_contiguous()
    return fits and load_int8_matvec() is not None


def native_int8_matvec(
    x: Float[Tensor, "row dim"],
    weight: Int8[Tensor, "out dim"],
    scale: Float[Tensor, " out"],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """x (scale W)^T + b; each row of x is rounded to int8 too, scaled by its largest magnitude.

    Call it only if `supports_int8_matvec(weight, scale)`.
    """
    return run_matvec(load_int8_matvec(), x, (weight, scale), bias)
