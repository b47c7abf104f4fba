"""Attention that runs but cannot be mapped: one gap per site, with the reason.

`tracker.OriginTracker` adds them while the model runs.
"""

import re
from typing import Any

from torch.jit import ScriptModule

from regard.types import Gap

REARRANGED = (
    "its scores are rearranged before they become weights, so their columns are not keys; "
    "register_tap its function to say what it does"
)
# the graph of a scripted module that attends names attention, or a softmax and a product
_ATTENTION, _SOFTMAX = re.compile("attention"), re.compile(r"softmax|exp\(")
_PRODUCT = re.compile("matmul|bmm|einsum")


class Gaps:
    """The gaps of a run, in the order in which their sites ran."""

    def __init__(self) -> None:
        self.found: list[Gap] = []

    def add(self, site: str, reason: str) -> None:
        """Add a gap, unless the site has one already."""
        if all(gap.site != site for gap in self.found):
            self.found.append(Gap(site, reason))


def scripted_reason(module: ScriptModule) -> str | None:
    """Why a scripted module cannot be mapped; None if nothing in its graph attends."""
    graph: Any = getattr(module, "inlined_graph", None)
    if graph is not None and not _attends(str(graph)):
        return None
    return "it is a scripted module, and what runs inside cannot be seen; watch it unscripted"


def _attends(graph: str) -> bool:
    """True if the text of a graph names attention, or what it is made of."""
    # three searches: one pattern with look-aheads takes minutes for a graph of a few hundred lines
    made_by_hand = _SOFTMAX.search(graph) and _PRODUCT.search(graph)
    return bool(_ATTENTION.search(graph) or made_by_hand)


def opaque_reason(name: str) -> str:
    """Why a custom operation that combines two streams cannot be mapped."""
    return (
        f"it runs the operation {name}, which has no tap, so what it does with its tensors cannot "
        "be seen; register_tap can teach it"
    )
