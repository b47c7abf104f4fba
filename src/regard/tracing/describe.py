"""How torch's own attending functions are described: their masks read, their axes made four."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from regard.kernels import Scoring
from regard.kernels.taps import Tapped, register_tap
from regard.masks import Bias, Mask, causal, everything, explicit, padding, tensor_bias

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
    mask, bias = (causal(), None) if is_causal else read_mask(attn_mask, len(query))
    # a dense causal mask lets the last query see the last key; is_causal starts at the first
    aligned_last = not is_causal and mask is not None and mask.split()[0].right == 0
    offset = key.shape[2] - query.shape[2] if aligned_last else 0

    def finish(context: Tensor) -> Tensor:
        return context if len(lead) == 2 else context.reshape(*lead, *context.shape[2:])

    scoring = Scoring(scale=scale, mask=mask, bias=bias, offset=offset)
    return Tapped(query, key, value, finish, scoring, dropout=dropout_p)


def read_mask(dense: Tensor | None, batch: int) -> tuple[Mask | None, Bias | None]:
    """What a dense mask of truth values or added numbers means; read once while it stays."""
    if dense is None:
        return None, None
    if dense.is_inference():  # has no version: whether it changed cannot be told
        return _read(dense, batch)
    key = (dense._version, batch)
    known = getattr(dense, _READ, {})
    if key not in known:
        known = {key: _read(dense.detach(), batch)}
        setattr(dense, _READ, known)
    found: tuple[Mask | None, Bias | None] = known[key]
    return found


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
        return padding(seen[:, 0, -1])
    queries, keys = seen.shape[2:]
    if seen.shape[1] == 1 and keys >= queries > 1:
        return _causal_description(seen)
    return explicit(seen)


def _causal_description(seen: Bool[Tensor, "batch head query key"]) -> Mask:
    """Causal, with the keys that no query sees as padding; explicit where that is not all."""
    queries, keys = seen.shape[2:]
    band = causal().dense(queries, keys, offset=keys - queries, device=seen.device)
    if bool((seen & ~band).any()):
        return explicit(seen)
    real = seen.any(dim=2)[:, 0]
    if torch.equal(band & real[:, None, None], seen):
        return causal() if bool(real.all()) else causal() & padding(real)
    rest = explicit(seen)
    return causal() & rest if bool(real.all()) else causal() & padding(real) & rest


def _four_axes(side: Tensor, lead: torch.Size) -> Tensor:
    if side.dim() == 4:
        return side if side.shape[0] == lead[0] else side.expand(lead[0], -1, -1, -1)
    if side.dim() == 3:
        return side[:, None]
    return side[None, None] if side.dim() == 2 else side.flatten(0, -4)


for _function in (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention):
    register_tap(_function, describe_sdpa)
