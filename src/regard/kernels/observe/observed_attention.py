"""The door: one call of attention, and everything that it saw."""

from typing import TypedDict, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.observe.call import Call, Keys, Queries, Scoring, Values
from regard.kernels.observe.choice import kernel_for
from regard.kernels.observe.gradient import differentiable, needs_gradient
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.masks import Bias, Mask

USUAL = ObserveOptions()


class Terms(TypedDict, total=False):
    """The fields of `Scoring` as keywords."""

    scale: float | None
    mask: Mask | None
    bias: Bias | None
    offset: int
    softcap: float | None
    sink: Float[Tensor, " head"] | None


def observe(
    query: Queries,
    key: Keys,
    value: Values,
    *,
    padded: Bool[Tensor, "batch key"] | None = None,
    keep: ObserveOptions = USUAL,
    **terms: Unpack[Terms],
) -> Observation:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1) that also says what it saw.

    The keywords are those of `Scoring`: scale, mask, bias, offset, softcap, sink. Key heads may
    be fewer than query heads if they divide them. `padded` names the keys that are padding, only
    to report the mass on them; what hides them is the mask. The weights are never held whole:
    memory beyond the result is a few blocks. A fully masked row gives zeros, never NaN.

    >>> import torch
    >>> from regard.kernels.observe import ObserveOptions, observe
    >>> from regard.masks import causal
    >>> query, key, value = (torch.ones(1, 2, 3, 4) for _ in range(3))
    >>> seen = observe(query, key, value, mask=causal(), keep=ObserveOptions(top=1))
    >>> seen.statistics.largest[0, 0]
    tensor([1.0000, 0.5000, 0.3333])
    >>> seen.atlas.mean.shape
    torch.Size([1, 2, 1, 1])
    """
    call = Call(query, key, value, Scoring(**terms), padded)
    kernel = kernel_for(call)
    if keep.context and needs_gradient(call):
        return differentiable(call, lambda: kernel.observe(call, keep))
    if not torch.is_grad_enabled():
        return kernel.observe(call, keep)
    with torch.no_grad():
        return kernel.observe(call, keep)
