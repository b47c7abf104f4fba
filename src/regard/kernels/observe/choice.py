"""The registry of implementations of observed attention, and which of them takes a call."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.observe import native, portable
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.kernels.observe.region import Pooled, Region

LogSumExp = Float[Tensor, "batch head query"]
Labels = Int[Tensor, "batch key"]
ReceivedSums = tuple[
    Float[Tensor, "batch head key"], Float[Tensor, "batch head query label"] | None
]


@dataclass(frozen=True)
class Implementation:
    """One way to compute observed attention.

    `supports` says whether it computes such a call (device, dtype, sizes), `is_available` whether
    it can run here and now (compiled, not disabled). `observe` does the pass; `pool_region` and
    `sum_received` recompute weights of a call from its logsumexp. `pool_region` returns the sum of
    each cell where the mean will stand: `recompute.window` divides. `sum_received` returns the sum
    of each key's column and, for `count` labels of keys, each row's mass per label.
    """

    name: str
    supports: Callable[[Call], bool]
    is_available: Callable[[], bool]
    observe: Callable[[Call, ObserveOptions], Observation]
    pool_region: Callable[[Call, LogSumExp, Region], Pooled]
    sum_received: Callable[[Call, LogSumExp, Labels | None, int], ReceivedSums]


NATIVE = Implementation(
    "native",
    native.supports,
    native.is_available,
    native.observe,
    native.pool_region,
    native.sum_received,
)
PORTABLE = Implementation(
    "portable",
    lambda call: True,
    lambda: True,
    portable.observe,
    portable.pool_region,
    portable.sum_received,
)

# The fastest first; the last takes every call. The tests of the laws run over all of them.
IMPLEMENTATIONS = (NATIVE, PORTABLE)


def implementation_for(call: Call) -> Implementation:
    """The first implementation that supports the call and is available."""
    for implementation in IMPLEMENTATIONS[:-1]:
        if implementation.supports(call) and implementation.is_available():
            return implementation
    return IMPLEMENTATIONS[-1]
