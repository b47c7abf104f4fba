"""One attention call from the moment it is about to run until its record is complete.

Everything `regard` knows of a call is one value, `record.CallRecord`, that grows in stages:

1. *described*. A function that attends is a "tap": a describer turns its arguments into a `Tapped`
   (query, key, value with four axes, mask as a description). `sdpa.py` describes torch's
   scaled_dot_product_attention and `flex.py` flex_attention; users add theirs by `register_tap`;
   `huggingface` adds the plain attention of transformers. A softmax that was written by hand has no
   describer: the data flow reports its weights, and `manual_softmax.py` describes the call.
2. *observed*. `observe_call.py` runs the call with a kernel that computes the context and exact
   statistics of every row in one pass; a short call runs as the model runs it, and `pending.py`
   measures it when it is read; `kept_sides.py` copies queries and keys that the model writes to
   meanwhile. `edits.py` holds what a caller may change (`Edit`, `knock_out`, ...), seen through a
   small public value, `AttentionCall`; `editor.py` applies it.
   For hand-written calls, `manual_product.py` puts edits into the product of weights and values.
3. *stacked*. `assembly` joins the records of decoding steps and makes traces of them.

Example: a decoder of 2 heads of dimension 4 reads 5 tokens; a caller knocks out head 1.

    describe_sdpa(q, k, v, is_causal=True)  ->  Tapped(query (1, 2, 5, 4), ..., scoring=causal)
    describe_call("h.0.attn", tapped, ("model", "model"), 1)
        ->  CallRecord(site="h.0.attn", query_stream="model", key_stream="model", key_count=5)
    editor.changes(call_for_edit(record, tapped))
        ->  [HeadChange(heads=[1], weights=zeros (1, 1, 5, 5))]
    observe_call(record, tapped, run_original, options, changes)
        ->  the result that the model goes on with, head 1 contributing nothing, and the record
            with observation.statistics (1, 2, 5) and edits=(EditedWeights((1,), zeros),)

What was chosen by the caller is `options.WatchOptions` (with `Keep` and `site_choice.SiteChoice`).
`watcher.Watcher` calls `describe_call` and `observe_call` for taps, `describe_manual_call` and
`ManualProducts` for hand-written attention, and hands complete records to
`assembly.decoding_runs.DecodingRuns`.
"""
