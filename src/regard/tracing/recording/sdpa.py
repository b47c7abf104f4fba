"""How torch's own attending functions are described: their masks read, their axes made four."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from regard.kernels.observe import Scoring
from regard.kernels.observe.taps import Tapped, register_tap
from regard.masks import Bias, Mask, causal, everything, explicit, padding, tensor_bias, window
from regard.tracing.dataflow.origins import mark_of, put
from regard.tracing.mask_reading.lazy import LazyMask, place_of, told

HIDDEN = -1e4  # numbers added to hide a key are minus infinity or nearly so
_READ = "_regard_read"


def describe_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Tapped:
    """One call of F.scaled_dot_product_attention."""
    lead = query.shape[:-2]
    query, key, value = (_four_axes(side, lead) for side in (query, key, value))
    if attn_mask is not None and attn_mask.dim() == 3 and len(lead) == 1:
        attn_mask = attn_mask[:, None]  # without heads, its first axis is the batch
    cached = is_cached(query, key) and not is_causal
    if cached and attn_mask is not None and attn_mask.shape[-1] == key.shape[2]:
        attn_mask = written(attn_mask, query.shape[2])
        key, value = (_first(side, attn_mask.shape[-1]) for side in (key, value))
    mask, bias = (causal(), None) if is_causal else read_mask(attn_mask, len(query))
    # a dense causal mask lets the last query see the last key; is_causal starts at the first
    aligned_last = not is_causal and mask is not None and mask.split()[0].right == 0
    offset = place_of(attn_mask, key.shape[2] - query.shape[2] if cached or aligned_last else 0)

    def finish(context: Tensor) -> Tensor:
        return context if len(lead) == 2 else context.reshape(*lead, *context.shape[2:])

    scoring = Scoring(scale=scale, mask=mask, bias=bias, offset=offset)
    return Tapped(query, key, value, finish, scoring, dropout=dropout_p)


def is_cached(query: Tensor, key: Tensor) -> bool:
    """Whether the keys are those of the queries' own stream and of what came before them."""
    stream = mark_of(query).stream
    return key.shape[2] > query.shape[2] and stream is not None and stream == mark_of(key).stream


def written(dense: Tensor, queries: int) -> Tensor:
    """The mask without the last columns of a static cache, which hide what is not written yet."""
    if isinstance(dense, LazyMask):
        return dense.written()

    def read(dense: Tensor) -> Tensor:
        seen = dense if dense.dtype == torch.bool else dense > HIDDEN
        whole = seen.expand(*seen.shape[:-2], queries, seen.shape[-1])
        keys = reach(whole)
        return dense if keys == dense.shape[-1] else dense[..., :keys]

    found: Tensor = _read_once(dense, ("written", queries), read)
    return dense if found.shape == dense.shape else found  # on which the rest is read once too


def reach(seen: Bool[Tensor, "*batch query key"]) -> int:
    """How many keys there are up to the last query's own: those beyond are not written yet.

    Where a query stands is told by the last key that it sees: in the rows of a causal mask that
    are not padding, one further from row to row.
    """
    queries, keys = seen.shape[-2:]
    if keys <= queries or bool(seen[..., -1].any()):
        return keys
    anyone = seen.reshape(-1, queries, keys).any(dim=0)
    last = (anyone * torch.arange(1, keys + 1, device=seen.device)).amax(dim=1)
    own = (last - torch.arange(queries, device=seen.device))[last > 0]
    if not len(own):
        return keys
    # the most common distance, of several the smallest: the last row's, where all see all
    before = max(0, int(own.mode().values) - 1)
    return min(keys, max(before + queries, int(last.max())))


def read_mask(dense: Tensor | None, batch: int) -> tuple[Mask | None, Bias | None]:
    """What a dense mask of truth values or added numbers means; read once while it stays."""
    if dense is None:
        return None, None
    if (mask := told(dense, batch)) is not None:
        return mask, None
    found: tuple[Mask | None, Bias | None] = _read_once(
        dense, ("read", batch), lambda dense: _read(dense, batch)
    )
    return found


def _read_once(dense: Tensor, name: tuple[str, int], read: Callable[[Tensor], Any]) -> Any:
    """What was read of a tensor under a name, read again when the tensor has changed."""
    known: tuple[Any, dict[tuple[str, int], Any]] = getattr(dense, _READ, (None, {}))
    state, found = known
    if dense.is_inference():  # has no version: it is compared
        if state is None or not torch.equal(state, dense):
            state, found = dense.clone(), {}
    elif state != dense._version:
        state, found = dense._version, {}
    if name not in found:
        found[name] = read(dense.detach())
    setattr(dense, _READ, (state, found))
    return found[name]


def _read(dense: Tensor, batch: int) -> tuple[Mask | None, Bias | None]:
    dense = dense[(None,) * (4 - dense.dim())] if dense.dim() < 4 else dense
    dense = dense.expand(batch, -1, -1, -1)
    if dense.dtype == torch.bool:
        return as_description(dense), None
    hidden = dense <= HIDDEN
    bias = dense.masked_fill(hidden, 0.0)
    mask = as_description(~hidden) if bool(hidden.any()) else None  # else all keys are seen
    return mask, tensor_bias(bias) if bool(bias.any()) else None


def as_description(seen: Bool[Tensor, "batch head query key"]) -> Mask:
    """The shortest description of a dense mask; causal ones are aligned at the last query."""
    if bool(seen.all()):
        return everything()
    if seen.shape[1] > 1 and bool((seen == seen[:, :1]).all()):
        seen = seen[:, :1]
    if seen.shape[1] == 1 and bool((seen == seen[:, :, -1:]).all()):
        return padding(seen[:, 0, -1].clone())
    queries, keys = seen.shape[2:]
    if seen.shape[1] == 1 and keys >= queries > 1:
        return _causal_description(seen)
    return explicit(_copy(seen))


def _causal_description(seen: Bool[Tensor, "batch head query key"]) -> Mask:
    """Causal, with the keys that no query sees as padding; explicit where that is not all."""
    queries, keys = seen.shape[2:]
    offset = keys - queries
    band = causal().dense(queries, keys, offset=offset, device=seen.device)
    if bool((seen & ~band).any()):
        return explicit(_copy(seen))
    real = seen.any(dim=2)[:, 0]
    if torch.equal(band & real[:, None, None], seen):
        return _padded(causal(), real)
    sliding = _sliding(seen)
    band = sliding.dense(queries, keys, offset=offset, device=seen.device)
    within = real | ~band.any(dim=2)[:, 0]  # what the window hides need not be padding
    if torch.equal(band & within[:, None, None], seen):
        return _padded(sliding, within)
    return _padded(causal(), real) & explicit(_copy(seen))


def _padded(band: Mask, real: Bool[Tensor, "batch key"]) -> Mask:
    return band if bool(real.all()) else band & padding(real)


def _sliding(seen: Bool[Tensor, "batch head query key"]) -> Mask:
    """The narrowest causal window around a mask whose last query stands at the last key."""
    queries, keys = seen.shape[2:]
    anyone = seen.any(dim=0)[0]
    own = torch.arange(keys - queries, keys, device=seen.device)
    back = (own - anyone.int().argmax(dim=1))[anyone.any(dim=1)]
    return window(int(back.max()), 0) if len(back) else causal()


def _copy(seen: Bool[Tensor, "batch head query key"]) -> Bool[Tensor, "batch head query key"]:
    """The mask as it is now, whatever is written into it later; once if all examples share it."""
    return seen[:1].clone().expand_as(seen) if seen.stride(0) == 0 else seen.clone()


def _first(side: Tensor, keys: int) -> Tensor:
    """The first keys or values, of the same stream."""
    if keys == side.shape[2]:
        return side
    found = side[:, :, :keys]
    put(found, mark_of(side))
    return found


def _four_axes(side: Tensor, lead: torch.Size) -> Tensor:
    if side.dim() == 4 and side.shape[0] == lead[0]:
        return side
    if side.dim() == 4:
        found = side.expand(lead[0], -1, -1, -1)
    elif side.dim() == 3:
        found = side[:, None]
    else:
        found = side[None, None] if side.dim() == 2 else side.flatten(0, -4)
    put(found, mark_of(side))
    return found


for _function in (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention):
    register_tap(_function, describe_sdpa)
