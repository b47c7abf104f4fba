"""Attention that also returns statistics of its weights, computed in the same pass.

The weights of a call are a matrix of queries x keys for each head, too large to keep for long
texts. `observe` computes the context as any attention function does and, while the weights of a
block are in the processor's cache, takes every number that a reader of the map may want: entropy,
the largest weight and its key, the mass on the first, own, previous and next position, the top-k,
and an atlas (each head's map pooled to cells). The numbers are exact; the matrix is never held.

With three equal tokens and a causal mask, each query spreads its weight evenly over what it sees:

    >>> import torch
    >>> from regard.kernels.observe import Region, observe, received, window
    >>> from regard.masks import causal
    >>> query, key, value = (torch.ones(1, 1, 3, 4) for _ in range(3))
    >>> seen = observe(query, key, value, mask=causal())
    >>> seen.statistics.largest[0, 0]
    tensor([1.0000, 0.5000, 0.3333])
    >>> seen.statistics.entropy[0, 0]  # log 1, log 2, log 3
    tensor([0.0000, 0.6931, 1.0986])

The observation keeps each row's logsumexp. With it, `window` recomputes the exact weights of any
rectangle of any head later, and `received` sums each key's weight over all queries:

    >>> window(query, key, seen.lse, Region(range(2, 3), range(3)), seen.scoring).mean
    tensor([[0.3333, 0.3333, 0.3333]])
    >>> received(query, key, seen.lse, seen.scoring).total[0, 0]
    tensor([1.8333, 0.8333, 0.3333])

What calls what: `observed_attention` and `recompute` hold the public functions. They make a
checked `Call`, and `choice` gives it to an implementation: `native` (C++ on the CPU, in
`kernels/cpp/observe`) or `portable` (torch, any device and dtype). `portable` walks over the call
in `strips` of scores and writes each strip's numbers with `accumulate`; `gradient` walks over the
same strips backwards. `full_weights` computes whole matrices where a caller needs one. `taps` is
the registry by which watchers learn which functions attend and with which arguments.
"""

from regard.kernels.observe.call import Scoring
from regard.kernels.observe.observation import Atlas, Observation, ObserveOptions, Statistics, Top
from regard.kernels.observe.observed_attention import observe
from regard.kernels.observe.recompute import received, window
from regard.kernels.observe.region import Pooled, Received, Region

__all__ = [
    "Atlas",
    "Observation",
    "ObserveOptions",
    "Pooled",
    "Received",
    "Region",
    "Scoring",
    "Statistics",
    "Top",
    "observe",
    "received",
    "window",
]
