"""Which kernel takes a call."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels import library
from regard.kernels.observe import native, portable
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.kernels.observe.region import Pooled, Region

Level = Float[Tensor, "batch head query"]
Labels = Int[Tensor, "batch key"]
Counts = tuple[Float[Tensor, "batch head key"], Float[Tensor, "batch head query label"] | None]


@dataclass(frozen=True)
class Kernel:
    """One way to compute: observe a call, look at a region of it, count what keys received."""

    observe: Callable[[Call, ObserveOptions], Observation]
    look: Callable[[Call, Level, Region], Pooled]
    count: Callable[[Call, Level, Labels | None, int], Counts]


NATIVE = Kernel(native.observe, native.look, native.count)
PORTABLE = Kernel(portable.observe, portable.look, portable.count)


def kernel_for(call: Call) -> Kernel:
    """The native kernel if it takes the call; says so once where it is only missing."""
    if not native.fits(call) or not library.native_enabled():
        return PORTABLE
    if library.library() is None:
        library.notice_missing()
        return PORTABLE
    return NATIVE
