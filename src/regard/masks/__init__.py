"""Masks (which keys a query may see) and biases (what is added to its scores), as descriptions.

Query i of a call stands at position offset + i, key j at position j. A mask or bias describes a
rule and holds no query x key tensor, unless it is made from one. Kernels read the description to
skip keys, `dense` makes it a tensor, `cut` makes the tensor for an `Area` only (some queries and
keys of a call), and `state` and `restore` write it to plain data and back. Dense forms have the
axes batch, head, query, key, of size one where they do not vary.

A causal window, and what a kernel reads from it: the window that limits the keys, and no rest that
would need a dense mask.

>>> from regard.masks import Area, causal, window
>>> mask = causal() & window(2, 2)
>>> mask.split()
(window(2, 0), None)
>>> mask.split()[0].reach(Area(range(5, 7), range(0, 100)))
range(3, 7)

`value` holds what masks and biases share, `mask` and `bias` hold the kinds and the functions that
make them.
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
