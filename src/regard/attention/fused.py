"""Softmax over inner products with torch's fused kernel, skipping keys that the mask hides.

The mask decides how the kernel is called: without a mask, with its own causal flag, on overlapping
strips of keys for a window (`banded`), or with a dense mask, in slices if it would be large.
"""

import torch
import torch.nn.functional as F

from regard.attention.banded import attend_band
from regard.attention.sliced import Context, Kernel, Key, Query, Value, attend_slices
from regard.attention.terms import Terms

_CELLS = 1 << 22  # a dense mask with more elements than this is made slice by slice


def attend_fused(query: Query, key: Key, value: Value, terms: Terms, kernel: Kernel) -> Context:
    """softmax(scale q . k + bias) v over the seen keys, never holding all query x key scores."""
    width = value.shape[-1]
    if query.shape[-1] == width or query.device.type != "cpu":
        return _attend_by_mask(query, key, value, terms, kernel)
    # on CPU torch fuses only if keys and values have one width; columns of zeros change nothing
    wide = max(query.shape[-1], width)
    query, key = (F.pad(side, (0, wide - side.shape[-1])) for side in (query, key))
    value = F.pad(value, (0, wide - width))
    return _attend_by_mask(query, key, value, terms, kernel)[..., :width]


def _attend_by_mask(query: Query, key: Key, value: Value, terms: Terms, kernel: Kernel) -> Context:
    """The context, by the cheapest call of the kernel that the mask and bias allow."""
    whole = terms.area(range(query.shape[2]), key.shape[2], query.device)
    band, rest = terms.mask.split()
    if rest is None and terms.bias is None:
        if band.covers(whole):
            return kernel(query, key, value)
        if (band.left, band.right, terms.offset) == (None, 0, 0):
            return kernel(query, key, value, is_causal=True)
        if band.left is not None and band.right is not None:
            return attend_band(query, key, value, terms, kernel)
    cells = len(whole.rows) * len(whole.columns)
    if cells <= _CELLS or torch.compiler.is_compiling():
        return kernel(query, key, value, terms.dense(whole, query.dtype))
    rows = range(0, len(whole.rows), max(1, _CELLS // len(whole.columns)))
    return torch.cat(attend_slices(query, key, value, terms, kernel, rows), dim=2)
