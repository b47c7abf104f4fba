"""Which kernel takes a call."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels import library, native, portable
from regard.kernels.call import Call
from regard.kernels.observation import Observation, What
from regard.kernels.region import Pooled, Region

Level = Float[Tensor, "batch head query"]
Labels = Int[Tensor, "batch key"]
Counts = tuple[Float[Tensor, "batch head key"], Float[Tensor, "batch head query label"] | None]


@dataclass(frozen=True)
class Kernel:
    """One way to compute: observe a call, look at a region of it, count what keys received."""

    observe: Callable[[Call, What], Observation]
    look: Callable[[Call, Level, Region], Pooled]
    count: Callable[[Call, Level, Labels | None, int], Counts]


NATIVE = Kernel(native.observe, native.look, native.count)
PORTABLE = Kernel(portable.observe, portable.look, portable.count)


def kernel_for(call: Call) -> Kernel:
    """The native kernel if it takes the call; says so once where it is only missing."""
    if not native.fits(call) or not library.wanted():
        return PORTABLE
    if library.library() is None:
        library.notice_missing()
        return PORTABLE
    return NATIVE
