"""Sums over hidden units for every pair of a query and a key: what additive scores need, natively.

With r = 1 / (1 + a b) for each query, key and hidden unit, `pair_sums` returns v . r of every pair
and `pair_gradients` the gradients of such sums. Nothing of size query x key x hidden is held.
`attention.additive` writes tanh(a + b) as 1 - 2 r, so that a pair costs no exponential.
"""

import ctypes

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ShapeError
from regard.kernels.layout import PairSums, Progress
from regard.kernels.library import library, native_enabled
from regard.kernels.memory import has_plain_memory, resolve

Left = Float[Tensor, "row query hidden"]
Right = Float[Tensor, "row key hidden"]
Sums = Float[Tensor, "row query key"]

_SLICE_SECONDS = 0.2  # Ctrl-C is heard between two slices


def supports_pair_sums(*tensors: Tensor) -> bool:
    """True if the native function is built and takes these: float32 in plain memory of the CPU."""
    fits = all(one.dtype == torch.float32 and one.device.type == "cpu" for one in tensors)
    return fits and has_plain_memory(*tensors) and native_enabled() and library() is not None


def pair_sums(left: Left, right: Right, v: Float[Tensor, " hidden"]) -> Sums:
    """The sum over hidden of v / (1 + left right), for every pair."""
    _check_pairs(left, right, v, left.shape[2:])
    left, right, v = (resolve(side).contiguous() for side in (left, right, v))
    sums = left.new_zeros(*left.shape[:2], right.shape[1])
    if not left.numel() or not right.numel():  # C++ would take a null address for a missing tensor
        return sums
    pairs = _describe(left, right)
    pairs.v, pairs.scores = v.data_ptr(), sums.data_ptr()
    _run(pairs)
    return sums


def pair_gradients(left: Left, right: Right, gradient: Sums) -> tuple[Left, Right, Left]:
    """Sums over keys, and over queries, of gradient r (1 - r); and over keys of gradient r."""
    _check_pairs(left, right, gradient, (*left.shape[:2], right.shape[1]))
    left, right, gradient = (
        resolve(left).contiguous(),
        resolve(right).contiguous(),
        resolve(gradient),
    )
    to_left, to_right, rest = (torch.zeros_like(side) for side in (left, right, left))
    if not left.numel() or not right.numel():
        return to_left, to_right, rest
    pairs = _describe(left, right, gradient)
    pairs.to_first, pairs.to_v = to_left.data_ptr(), rest.data_ptr()
    _run(pairs)
    pairs = _describe(right, left, gradient.mT)
    pairs.to_first = to_right.data_ptr()
    _run(pairs)
    return to_left, to_right, rest


def _check_pairs(left: Tensor, right: Tensor, other: Tensor, shape: tuple[int, ...]) -> None:
    """Raise a ShapeError unless the sides fit together and the third tensor has this shape."""
    sides = left.dim() == right.dim() == 3 and left.shape[::2] == right.shape[::2]
    kinds = {(one.dtype, one.device.type) for one in (left, right, other)}
    if not sides or other.shape != shape or kinds != {(torch.float32, "cpu")}:
        shapes = ", ".join(f"{one.dtype} {tuple(one.shape)}" for one in (left, right, other))
        raise ShapeError(
            "sums over pairs expected float32 tensors on the CPU, (row query hidden), "
            f"(row key hidden) and (hidden) or (row query key), got {shapes}; make them agree"
        )


def _describe(first: Tensor, second: Tensor, gradient: Tensor | None = None) -> PairSums:
    """The structure for C++, without its outputs."""
    rows, firsts, hidden = first.shape
    pairs = PairSums(
        first=first.data_ptr(),
        second=second.data_ptr(),
        rows=rows,
        firsts=firsts,
        seconds=second.shape[1],
        hidden=hidden,
        threads=torch.get_num_threads(),
    )
    if gradient is not None:
        pairs.gradient, pairs.gradient_strides[:] = gradient.data_ptr(), gradient.stride()
    return pairs


def _run(pairs: PairSums) -> None:
    """Run the C++ pass to its end, in slices between which Python can handle Ctrl-C."""
    loaded = library()
    assert loaded is not None
    progress = Progress(0, 0, 0, _SLICE_SECONDS)
    while loaded.regard_pair_sums(ctypes.byref(pairs), ctypes.byref(progress)):
        pass
