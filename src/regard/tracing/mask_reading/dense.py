"""Dense masks, of truth values or of numbers added to scores, read back as short descriptions."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from regard.masks import Bias, Mask, causal, everything, explicit, padding, tensor_bias, window
from regard.tracing.mask_reading.lazy import LazyMask, describe_lazy_mask

# A model hides a key by adding minus infinity or the smallest finite number of its dtype to the
# score. Real biases are far larger than this limit.
HIDDEN_BELOW = -1e4
_CACHE = "_regard_read"  # the attribute of a mask tensor that remembers what was read from it


def read_mask(dense: Tensor | None, batch: int) -> tuple[Mask | None, Bias | None]:
    """The mask and the bias that a dense mask stands for, for a batch of this size.

    The same tensor often serves every layer, so the result is remembered on the tensor.
    """
    if dense is None:
        return None, None
    if (mask := describe_lazy_mask(dense, batch)) is not None:
        return mask, None
    description: tuple[Mask | None, Bias | None] = _read_cached(
        dense, ("read", batch), lambda dense: _read_mask(dense, batch)
    )
    return description


def _read_mask(dense: Tensor, batch: int) -> tuple[Mask | None, Bias | None]:
    """`read_mask` without the cache."""
    dense = dense[(None,) * (4 - dense.dim())] if dense.dim() < 4 else dense
    dense = dense.expand(batch, -1, -1, -1)
    if dense.dtype == torch.bool:
        return describe_dense_mask(dense), None
    hidden = dense <= HIDDEN_BELOW
    bias = dense.masked_fill(hidden, 0.0)
    mask = describe_dense_mask(~hidden) if bool(hidden.any()) else None
    return mask, tensor_bias(bias) if bool(bias.any()) else None


def has_levelled_rows(dense: Tensor | None) -> bool:
    """True if finite numbers hide every key from some query, as with finfo.min at padding.

    A softmax then spreads the weights over the hidden keys, because all their scores are equally
    low; with minus infinity the row would have no weights at all.
    """
    if dense is None or not dense.is_floating_point() or isinstance(dense, LazyMask):
        return False
    levelled: bool = _read_cached(dense, ("levelled", 0), _has_levelled_rows)
    return levelled


def _has_levelled_rows(dense: Tensor) -> bool:
    """`has_levelled_rows` without the cache."""
    largest = dense.amax(dim=-1)
    return bool(((largest <= HIDDEN_BELOW) & (largest > float("-inf"))).any())


def drop_unwritten_keys(dense: Tensor, queries: int) -> Tensor:
    """The mask without the columns of keys that a static cache has not written yet.

    A static cache has room for the longest text from the start; its mask hides the unused rest.
    """
    if isinstance(dense, LazyMask):
        return dense.without_unwritten_keys()

    def crop(dense: Tensor) -> Tensor:
        visible = dense if dense.dtype == torch.bool else dense > HIDDEN_BELOW
        keys = count_written_keys(visible.expand(*visible.shape[:-2], queries, visible.shape[-1]))
        return dense if keys == dense.shape[-1] else dense[..., :keys]

    cropped: Tensor = _read_cached(dense, ("written", queries), crop)
    # the original tensor carries the cache of `read_mask`, so it is returned where it is the same
    return dense if cropped.shape == dense.shape else cropped


def count_written_keys(visible: Bool[Tensor, "*batch query key"]) -> int:
    """The number of keys up to the last query's own; keys beyond it are not written yet.

    The position of a query is taken from the last key that it sees: in a causal mask that key is
    one further from row to row, except in rows of padding.
    """
    queries, keys = visible.shape[-2:]
    if keys <= queries or bool(visible[..., -1].any()):
        return keys
    any_example = visible.reshape(-1, queries, keys).any(dim=0)
    last = (any_example * torch.arange(1, keys + 1, device=visible.device)).amax(dim=1)
    offsets = (last - torch.arange(queries, device=visible.device))[last > 0]
    if not len(offsets):
        return keys
    # the most common offset; where several are equally common, the smallest, which is that of the
    # last row if all rows see all written keys
    before = max(0, int(offsets.mode().values) - 1)
    return min(keys, max(before + queries, int(last.max())))


def _read_cached(dense: Tensor, name: tuple[str, int], read: Callable[[Tensor], Any]) -> Any:
    """What `read` returned for this tensor before, or returns now if the tensor has changed."""
    cached: tuple[Any, dict[tuple[str, int], Any]] = getattr(dense, _CACHE, (None, {}))
    state, results = cached
    if dense.is_inference():  # has no version counter, so its numbers are compared with a copy
        if state is None or not torch.equal(state, dense):
            state, results = dense.clone(), {}
    elif state != dense._version:
        state, results = dense._version, {}
    if name not in results:
        results[name] = read(dense.detach())
    setattr(dense, _CACHE, (state, results))
    return results[name]


def describe_dense_mask(visible: Bool[Tensor, "batch head query key"]) -> Mask:
    """The shortest description of a dense mask; in a causal one the last query is the last key."""
    if bool(visible.all()):
        return everything()
    if visible.shape[1] > 1 and bool((visible == visible[:, :1]).all()):
        visible = visible[:, :1]
    if visible.shape[1] == 1 and bool((visible == visible[:, :, -1:]).all()):
        return padding(visible[:, 0, -1].clone())
    queries, keys = visible.shape[2:]
    if visible.shape[1] == 1 and keys >= queries > 1:
        return _describe_causal(visible)
    return explicit(_copy(visible))


def _describe_causal(visible: Bool[Tensor, "batch head query key"]) -> Mask:
    """A causal or sliding window with padding if that is all there is, else with explicit pairs."""
    queries, keys = visible.shape[2:]
    offset = keys - queries
    band = causal().dense(queries, keys, offset=offset, device=visible.device)
    if bool((visible & ~band).any()):
        return explicit(_copy(visible))
    real = visible.any(dim=2)[:, 0]
    if torch.equal(band & real[:, None, None], visible):
        return _add_padding(causal(), real)
    sliding = _narrowest_window(visible)
    band = sliding.dense(queries, keys, offset=offset, device=visible.device)
    within = real | ~band.any(dim=2)[:, 0]  # a key that the window hides need not be padding
    if torch.equal(band & within[:, None, None], visible):
        return _add_padding(sliding, within)
    attends = F.pad(visible.any(dim=3)[:, 0], (offset, 0), value=True)
    # padding is what neither attends nor is attended to; the last key may be hidden from all
    return _add_padding(causal(), real | attends) & explicit(_copy(visible))


def _add_padding(band: Mask, real: Bool[Tensor, "batch key"]) -> Mask:
    """The mask, and padding where some key is not real."""
    return band if bool(real.all()) else band & padding(real)


def _narrowest_window(visible: Bool[Tensor, "batch head query key"]) -> Mask:
    """The narrowest causal window that shows all visible keys."""
    queries, keys = visible.shape[2:]
    any_example = visible.any(dim=0)[0]
    own = torch.arange(keys - queries, keys, device=visible.device)
    back = (own - any_example.int().argmax(dim=1))[any_example.any(dim=1)]
    return window(int(back.max()), 0) if len(back) else causal()


def _copy(visible: Bool[Tensor, "batch head query key"]) -> Bool[Tensor, "batch head query key"]:
    """A copy that later writes into the mask cannot change; one row if all examples share it."""
    if visible.stride(0) == 0:
        return visible[:1].clone().expand_as(visible)
    return visible.clone()
