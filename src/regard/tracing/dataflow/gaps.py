"""What attends and cannot be mapped, named once for each site, with the reason."""

import re
from typing import Any

from torch.jit import ScriptModule

from regard.types import Gap

REARRANGED = (
    "its scores are rearranged before they become weights, so their columns are not keys; "
    "register_tap its function to say what it does"
)
_ATTENDING = re.compile(r"attention|(?=.*(softmax|exp\())(?=.*(matmul|bmm|einsum))", re.DOTALL)


class Gaps:
    """The gaps of a run, in the order in which they were met."""

    def __init__(self) -> None:
        self.found: list[Gap] = []

    def note(self, site: str, reason: str) -> None:
        """Name a site, unless it was named before."""
        if all(each.site != site for each in self.found):
            self.found.append(Gap(site, reason))


def scripted_reason(module: ScriptModule) -> str | None:
    """Why a scripted module cannot be mapped; None if nothing in its graph attends."""
    graph: Any = getattr(module, "inlined_graph", None)
    if graph is not None and not _ATTENDING.search(str(graph)):
        return None
    return "it is a scripted module, and what runs inside cannot be seen; watch it unscripted"


def opaque_reason(name: str) -> str:
    """Why an operation of somebody's own cannot be mapped."""
    return (
        f"it runs the operation {name}, which has no tap, so what it does with its tensors cannot "
        "be seen; register_tap can teach it"
    )
