"""Attention that also says what it saw, in one pass.

`observe` gives the context of a call and, exactly, numbers about every row of its weights and a
pooled map of every head, without holding the weights. `window` and `received` ask for more of
the same call afterwards, from its queries, keys and logsumexp.
"""

from regard.kernels.call import Scoring
from regard.kernels.observation import Atlas, Observation, Statistics, Top, What
from regard.kernels.observe import observe
from regard.kernels.recall import received, window
from regard.kernels.region import Pooled, Received, Region

__all__ = [
    "Atlas",
    "Observation",
    "Pooled",
    "Received",
    "Region",
    "Scoring",
    "Statistics",
    "Top",
    "What",
    "observe",
    "received",
    "window",
]
