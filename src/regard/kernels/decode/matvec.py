"""The product of a few rows with a large float32 matrix, x W^T + b, computed natively.

When one token is decoded, x has one row per sentence, so the product takes as long as reading the
matrix from memory. The native function reads each weight once, whatever the number of rows.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.errors import ShapeError
from regard.kernels.library import library, native_enabled
from regard.kernels.memory import has_plain_memory, resolve

# With more rows than this, torch's own product, which reuses the matrix from the cache, is as fast.
MAX_MATVEC_ROWS = 16
# Below this many multiplications one thread is done before a second one has woken up.
_ONE_THREAD_PRODUCTS = 1 << 15


@cache
def load_matvec() -> Callable[..., None] | None:
    """The C++ function for float32 matrices; None if the library is missing or disabled."""
    function = getattr(library() if native_enabled() else None, "regard_matvec", None)
    if function is not None:
        function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 4
        function.restype = None
    return function


def supports_matvec(weight: Tensor) -> bool:
    """True if `native_matvec` is built and takes this matrix: float32, contiguous, on the CPU."""
    fits = weight.dtype == torch.float32 and weight.device.type == "cpu"
    fits = fits and weight.is_contiguous() and not weight.is_neg() and has_plain_memory(weight)
    return fits and load_matvec() is not None


def native_matvec(
    x: Float[Tensor, "row dim"],
    weight: Float[Tensor, "out dim"],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """x W^T + b, without gradients; call it only if `supports_matvec(weight)`.

    Rows without plain memory, such as those of a FakeTensorMode, are multiplied by torch.
    """
    if not has_plain_memory(x, bias):
        return F.linear(x, weight, bias)
    return run_matvec(load_matvec(), x, (weight,), bias)


def run_matvec(
    function: Callable[..., None] | None,
    x: Float[Tensor, "row dim"],
    matrix: tuple[Tensor, ...],
    bias: Float[Tensor, " out"] | None,
) -> Float[Tensor, "row out"]:
    """Call a C++ product with x, the tensors of the matrix (weights, then scales) and the bias."""
    assert function is not None
    _check_product(x, matrix, bias)
    x, weight = resolve(x).contiguous(), matrix[0]
    bias = None if bias is None else resolve(bias).contiguous()
    (rows, dim), outs = x.shape, weight.shape[0]
    y = x.new_empty(rows, outs)
    threads = torch.get_num_threads() if rows * weight.numel() > _ONE_THREAD_PRODUCTS else 1
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in (x, *matrix, bias, y)]
    function(*pointers, rows, dim, outs, threads)
    return y


def _check_product(x: Tensor, matrix: tuple[Tensor, ...], bias: Tensor | None) -> None:
    """Raise a ShapeError unless the sizes fit and x and the bias are float32 on the CPU."""
    weight, *scales = matrix
    fits = _fits(x, (x.shape[0], weight.shape[1]))
    outs = (weight.shape[0],)
    fits = fits and (bias is None or _fits(bias, outs)) and all(_fits(one, outs) for one in scales)
    if not fits:
        got = ", ".join(f"{one.dtype} {tuple(one.shape)}" for one in (x, weight, *scales))
        raise ShapeError(
            "a native product expected float32 rows (row dim) on the CPU, a matrix (out dim), and "
            f"scales and a float32 bias (out), got {got} and "
            f"{None if bias is None else (bias.dtype, tuple(bias.shape))}; convert or slice them"
        )


def _fits(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """True if the tensor has this shape and is float32 on the CPU."""
    return tensor.shape == shape and tensor.dtype == torch.float32 and tensor.is_cpu
