"""Which keys a query may see (Mask), and what is added to its scores (Bias), as small values.

Query i of a call stands at position offset + i, key j at position j. A mask or bias is a
description: kernels read it to skip work, `dense` makes it a tensor, `state` and `restore` carry
it to disk and back. Dense forms have the axes batch, head, query, key, of size one where they
do not vary.
"""

from regard.masks.bias import Bias, alibi, t5_buckets, tensor_bias
from regard.masks.mask import (
    Mask,
    Window,
    causal,
    everything,
    explicit,
    lengths,
    padding,
    segments,
    window,
)
from regard.masks.value import Area, Part, restore

__all__ = [
    "Area",
    "Bias",
    "Mask",
    "Part",
    "Window",
    "alibi",
    "causal",
    "everything",
    "explicit",
    "lengths",
    "padding",
    "restore",
    "segments",
    "t5_buckets",
    "tensor_bias",
    "window",
]
