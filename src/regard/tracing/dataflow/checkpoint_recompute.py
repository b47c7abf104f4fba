"""Ways to differentiate in which a watcher has to stay beside the model's own operations.

Gradient checkpointing runs a forward a second time during the backward pass. The second run must
not be recorded again, and the first must save exactly the tensors for the gradient that an
unwatched run saves, because torch compares the two. In forward mode (`torch.autograd.forward_ad`)
derivatives are computed along with the numbers, and only torch's operations know how.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard.kernels.observe.taps import Tapped
from regard.tracing.dataflow.origins import origin_of, set_origin


def is_backward() -> bool:
    """True while gradients are computed: a forward that runs now is a recomputation."""
    task: int = torch._C._current_graph_task_id()
    return task != -1


def is_checkpointed() -> bool:
    """True inside a checkpointed forward, whose saved tensors are compared with a second run."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def must_stay_beside() -> bool:
    """True where the model's own operations have to run, because their derivatives are followed."""
    return is_checkpointed() or forward_ad._current_level >= 0


def detach_call(tapped: Tapped) -> Tapped:
    """The call with its tensors outside the graph, so that observing it saves nothing for it."""
    query, key, value = map(_detach, (tapped.query, tapped.key, tapped.value))
    return replace(tapped, query=query, key=key, value=value)


def _detach(side: Tensor) -> Tensor:
    detached = side.detach()
    set_origin(detached, origin_of(side))
    return detached
