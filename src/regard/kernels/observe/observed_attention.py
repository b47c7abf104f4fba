"""`observe`: the public function of this package, one call of attention with its statistics."""

from typing import TypedDict, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.arguments import check_type
from regard.kernels.memory import fake_mode_of
from regard.kernels.observe.call import Call, Keys, Queries, Scoring, Values
from regard.kernels.observe.choice import PORTABLE, Implementation, implementation_for
from regard.kernels.observe.gradient import differentiable, needs_gradient
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.masks import Bias, Mask

DEFAULT_OPTIONS = ObserveOptions()


class ScoringKeywords(TypedDict, total=False):
    """The fields of `Scoring` as keyword arguments."""

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
    keep: ObserveOptions = DEFAULT_OPTIONS,
    **scoring: Unpack[ScoringKeywords],
) -> Observation:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1) with statistics of its weights.

    The keywords are those of `Scoring`: scale, mask, bias, offset, softcap, sink. Key heads may
    be fewer than query heads if their number divides that of the query heads. `padded` is True
    where a key is padding; it only serves to report the mass on padding, the mask is what hides
    keys. The full matrix of weights is never held: memory beyond the result is a few blocks. A
    fully masked row gives zeros, never NaN.

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
    check_type(query, Tensor, "observe", "query")
    return observe_scoring(Call(query, key, value, Scoring(**scoring), padded), keep)


def observe_scoring(call: Call, keep: ObserveOptions) -> Observation:
    """`observe` of a call that is put together already."""
    implementation = implementation_for(call)
    if implementation is not PORTABLE:
        return _run(implementation, call, keep)
    with fake_mode_of(call.query):
        return _run(implementation, call, keep)


def _run(implementation: Implementation, call: Call, keep: ObserveOptions) -> Observation:
    """The observation of an implementation, with a gradient if one is needed."""
    if keep.context and needs_gradient(call):
        return differentiable(call, lambda: implementation.observe(call, keep))
    if not torch.is_grad_enabled():
        return implementation.observe(call, keep)
    with torch.no_grad():
        return implementation.observe(call, keep)
