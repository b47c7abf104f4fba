"""What the kernel has still to measure of a short call: it is measured when it is first read.

A record keeps queries and keys anyway, so a call that is cheap to repeat runs as the model runs it,
and its statistics are computed when read. Measuring at once costs more than the call where
inputs are short, and many records are never read::

    result = F.scaled_dot_product_attention(query, key, value)     the model's own
    pending = PendingObservation(Call(query, key, key, scoring), options)
    pending.result().statistics.entropy                            the kernel's pass, once

A long call is measured while it runs, in the pass that computes its context.
"""

import torch
from torch import Tensor

from regard.kernels.observe import Observation, ObserveOptions
from regard.kernels.observe.call import Call
from regard.kernels.observe.observed_attention import observe_scoring

__all__ = ["MOST_SCORES", "PendingObservation"]

# Up to as many scores, a second pass over queries and keys takes some hundredths of a second.
MOST_SCORES = 1 << 24


class PendingObservation:
    """The observation of a call, computed when it is first asked for; `options` have no context."""

    def __init__(self, call: Call, options: ObserveOptions) -> None:
        self._call, self._options = call, options
        self._result: Observation | None = None

    def result(self) -> Observation:
        """The observation, without a context."""
        if self._result is None:
            # read inside another block of `watch`, it is no attention of that block's model
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self._result = observe_scoring(self._call, self._options)
        return self._result

    def keep_sides(self, query: Tensor, key: Tensor) -> "PendingObservation":
        """The same, of queries and keys that the model cannot overwrite."""
        if query is self._call.query and key is self._call.key:
            return self
        call = Call(query, key, key, self._call.scoring)
        return PendingObservation(call, self._options)
