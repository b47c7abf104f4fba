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
`SoftmaxDenominator`, `ManualWeights`. Tokens that were cut into blocks, gathered or read by strides
lie on no axis any more (axis `LOST`), but a `Trail` remembers how they were moved, and where the
weights meet their values they are put back in place. Scores that were moved off their keys cannot;
the site then becomes a gap with its reason, because no map is better than a wrong one.

Who calls what, in the order of one torch function call:

- `watcher.Watcher` asks `rule_table.rule_of(function)` which rule the function follows (cached).
- It runs the function, then `tracker.OriginTracker.follow` applies the rule to the result.
- Rules are in `propagation.py` (numbers stay in place) and `rearrangement.py` (tokens move between
  axes, with the arithmetic of axes in `axis_moves.py`); `products.py` reads which axes a product
  sums over; `softmax.py` follows scores to weights; `sampling.py` maps deformable attention,
  `edges.py` attention along the edges of a graph.
- `position_mixing.py` handles all that is no softmax: weights such as sigmoids (`unnormalised.py`),
  sums over positions such as linear attention (`mixing.py`), loops over tokens (`recurrence.py`).
- `rule_cache.py` remembers what rules made of origins, which all layers and steps repeat.
- `places.py` passes trails on beside origins, `trails.py` replays them with indices in place of
  numbers (`replayed_steps.py` has the functions), and `placed_weights.py` makes the map.
- `origins.py` holds the values (`Origin`, `StreamPair`, `ManualWeights`), written on tensors.
- `stream_starts.py` and `input_ranges.py` name the streams that begin with inputs;
  `example_facts.py` notes which example the pictures of a batch belong to.
- `gaps.py` collects what cannot be mapped; `output_projection.py` finds the matrix that a context
  goes into; `checkpoint_recompute.py` tells the second run of gradient checkpointing apart.
"""
