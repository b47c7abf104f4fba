"""Sums over hidden units for every pair of a query and a key, natively: what additive scores need.

With r = 1 / (1 + a b) for each query, key and hidden unit, `pair_sums` gives v . r of every pair,
and `pair_slopes` what a gradient of such sums becomes on its way back. Nothing of size query x key
x hidden is held.
"""

import ctypes

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.layout import Pairs, Progress
from regard.kernels.library import library, native_enabled

Left = Float[Tensor, "row query hidden"]
Right = Float[Tensor, "row key hidden"]
Sums = Float[Tensor, "row query key"]

_SLICE_SECONDS = 0.2  # Ctrl-C is heard between slices


def takes_pairs(left: Tensor) -> bool:
    """Whether the native kernel is there and takes such tensors."""
    fits = left.dtype == torch.float32 and left.device.type == "cpu"
    return fits and native_enabled() and library() is not None


def pair_sums(left: Left, right: Right, v: Float[Tensor, " hidden"]) -> Sums:
    """The sum over hidden of v / (1 + left right), for every pair."""
    left, right, v = left.contiguous(), right.contiguous(), v.contiguous()
    sums = left.new_empty(*left.shape[:2], right.shape[1])
    pairs = _pairs(left, right)
    pairs.v, pairs.scores = v.data_ptr(), sums.data_ptr()
    _run(pairs)
    return sums


def pair_slopes(left: Left, right: Right, gradient: Sums) -> tuple[Left, Right, Left]:
    """Sums over keys and over queries of gradient r (1 - r), and over keys of gradient r."""
    left, right = left.contiguous(), right.contiguous()
    to_left, to_right = torch.empty_like(left), torch.empty_like(right)
    rest = torch.empty_like(left)
    pairs = _pairs(left, right, gradient)
    pairs.to_first, pairs.to_v = to_left.data_ptr(), rest.data_ptr()
    _run(pairs)
    pairs = _pairs(right, left, gradient.mT)
    pairs.to_first = to_right.data_ptr()
    _run(pairs)
    return to_left, to_right, rest


def _pairs(first: Tensor, second: Tensor, gradient: Tensor | None = None) -> Pairs:
    rows, firsts, hidden = first.shape
    pairs = Pairs(
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


def _run(pairs: Pairs) -> None:
    found = library()
    assert found is not None
    progress = Progress(0, 0, 0, _SLICE_SECONDS)
    while found.regard_pair_up(ctypes.byref(pairs), ctypes.byref(progress)):
        pass
