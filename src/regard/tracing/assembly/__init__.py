"""From the records of a block to one trace for each example.

A model that generates text calls its attention once for each new token, for all sentences of the
batch at once. A reader wants one map for each layer and each sentence: a row for every token,
padding dropped, the rows of a beam search in the order of the hypothesis that was kept. This
package does that, in six steps, one module each:

1. `decoding_runs.py`, while the model runs: a call that has the keys of the call before and some
   more continues its run; only the new keys are kept. Without a cache, a call that has read
   everything again takes the place of the one before (`rereading.py`).
2. `inner_parts.py`, at the end of the block: which example the rows of an inner batch belong to,
   such as the pictures of several texts. `slots.py` tells tokens from slots that compress them.
3. `beam_rows.py`: for each run and each step, the row of the batch that each trace had. Beams move
   between rows and finished sentences leave; rows are recognised by their keys, or the caller says
   which they were (`TokenLabels.rows`).
4. `stacking.py`: the calls of a run become one call, a `StackedCall`.
5. `streams.py` and `token_labels.py`: which streams of tokens there are ("source" and "target", or
   "tokens"), which of their tokens are real, and what each is called.
6. `traces.py` cuts the map of each example out of the stacked call, when a trace is first asked
   for; `map_extras.py` adds values, gradients, edits and the choice of heads.

Example: two prompts of 3 and 2 tokens, padded to 3, and 2 more tokens generated with a cache.

    records at "h.0.attn": queries x keys  3 x 3,  1 x 4,  1 x 5     (batch 2, causal)
    DecodingRuns.add, three times     ->  one run of 3 records with 3, 1 and 1 new keys
    find_trace_rows                   ->  [[0, 1], [0, 1], [0, 1]]   (rows never moved)
    stack_run                         ->  one record of 5 queries x 5 keys, causal again
    find_streams                      ->  {("model", 5): Stream("tokens", real=[0:5, 1:5])}
    assemble(...)[1]["h.0.attn"]      ->  a map of 4 x 4: the second prompt without its padding

`watch.watch` calls `assemble` when its block ends; `statistics.collect` uses steps 1 and 3
to 5, and sums up instead of making traces.
"""
