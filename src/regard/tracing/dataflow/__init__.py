"""Where every tensor of a running model came from, and which of them are attention weights.

Many models write attention out by hand: a product of queries and keys, a scale, a mask, a softmax,
a product with values. No function is called "attention" there. This package recognises it by data
flow: after every function of torch, the result gets an `Origin`, written on the tensor itself,
that says which stream of tokens the tensor belongs to, on which axis its tokens lie, and how far it
is on the way from scores to weights.

Example: a model embeds 7 words and attends by hand, one head, batch 1 (axes count from the end):

    x = embedding(ids)      (1, 7, 32)  Origin(stream="encoder", axis=-2)
    q, k, v = W x, U x, V x (1, 7, 32)  the same: a linear map of the last axis moves no token
    s = q @ k.mT            (1, 7, 7)   pair: queries of "encoder" on axis -2, keys on axis -1
    s = s / 32 ** 0.5                   unchanged: every number by itself
    w = softmax(s, dim=-1)  (1, 7, 7)   stage ManualWeights: normalised over the axis of the keys
    c = w @ v               (1, 7, 32)  weights times values, summed over keys: attention!

At the last line the tracker reports the call: weights w, from the stream "encoder" at itself. Had
the softmax been written as exp(s) / exp(s).sum(-1), the stages would have been `Exponentials`,
`SoftmaxDenominator`, `ManualWeights`. Scores that were sorted or gathered on the way have columns
that are not keys any more (axis `LOST`); the site then becomes a gap with its reason, because no
map is better than a wrong one.

Who calls what, in the order of one torch function call:

- `watcher.Watcher` asks `rule_table.rule_of(function)` which rule the function follows (cached).
- It runs the function, then `tracker.OriginTracker.follow` applies the rule to the result.
- Rules are in `propagation.py` (numbers stay in place) and `rearrangement.py` (tokens move between
  axes, with the arithmetic of axes in `axis_moves.py`); `products.py` reads which axes a product
  sums over; `softmax.py` follows scores to weights; `sampling.py` maps deformable attention.
- `origins.py` holds the values (`Origin`, `StreamPair`, `ManualWeights`), written on tensors.
- `gaps.py` collects what cannot be mapped; `output_projection.py` finds the matrix that a context
  goes into; `checkpoint_recompute.py` tells the second run of gradient checkpointing apart.
"""
