"""Few rows times a large matrix, natively: as fast as the matrix can be read.

The matrix may be of eight-bit numbers with a scale for each of its rows, a quarter of the bytes.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from regard.kernels.library import library, wanted

MOST = 16  # rows; for more, a library that counts on reuse is as quick
_SMALL = 1 << 15  # multiplications that one thread has done before a second is awake


@cache
def multiplier() -> Callable[..., None] | None:
    """The native function, or None where it is not built."""
    found = library() if wanted() else None
    function = getattr(found, "regard_multiply", None)
    if function is not None:
        function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 4
        function.restype = None
    return function


def takes_matrix(weight: Tensor) -> bool:
    """Whether the native kernel is there and takes such a matrix."""
    fits = weight.dtype == torch.float32 and weight.device.type == "cpu"
    return fits and weight.is_contiguous() and multiplier() is not None


def multiply(
    x: Float[Tensor, "row dim"],
    weight: Float[Tensor, "out dim"],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """x W^T + b, without gradients; `takes_matrix` says for which matrices."""
    return _run(multiplier(), x, (weight,), bias)


@cache
def multiplier_of_bytes() -> Callable[..., None] | None:
    """The native function for matrices of eight bits, or None where it is not built."""
    found = library() if wanted() else None
    function = getattr(found, "regard_multiply_eight", None)
    if function is not None:
        function.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 4
        function.restype = None
    return function


def takes_bytes(weight: Tensor, scale: Tensor) -> bool:
    """Whether the native kernel is there and takes such a matrix of eight bits."""
    fits = weight.dtype == torch.int8 and scale.dtype == torch.float32
    fits = fits and weight.device.type == "cpu" and weight.is_contiguous()
    return fits and multiplier_of_bytes() is not None


def multiply_bytes(
    x: Float[Tensor, "row dim"],
    weight: Int8[Tensor, "out dim"],
    scale: Float[Tensor, " out"],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """x (scale W)^T + b with each row of x in eight bits too, by its largest number."""
    return _run(multiplier_of_bytes(), x, (weight, scale), bias)


def _run(
    function: Callable[..., None] | None,
    x: Float[Tensor, "row dim"],
    matrix: tuple[Tensor, ...],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """What a native function makes of the rows, the parts of a matrix and its bias."""
    assert function is not None
    x, weight = x.contiguous(), matrix[0]
    (rows, dim), outs = x.shape, weight.shape[0]
    y = x.new_empty(rows, outs)
    threads = torch.get_num_threads() if rows * weight.numel() > _SMALL else 1
    places = [None if each is None else each.data_ptr() for each in (x, *matrix, bias, y)]
    function(*places, rows, dim, outs, threads)
    return y
