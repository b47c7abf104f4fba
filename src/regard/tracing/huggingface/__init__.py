"""Calls of transformers' models, made visible through the registries that transformers offers.

A model of Hugging Face's transformers looks up two functions by name: one that makes the attention
mask, and one that attends. While a model is watched, this package puts its own functions in front
of them, for the watching thread only. transformers is never imported here: what is not loaded
cannot run, and what is loaded is found in `sys.modules`.

Three modules:

- `registries.py` enters and leaves the registries; `watch_registries()` is the context manager.
- `mask_functions.py` stands in front of `sdpa_mask` and `eager_mask`. Instead of a dense tensor of
  (batch, 1, query, key) numbers it returns a `LazyMask` that carries a description, if one can be
  found and agrees with the model's own function at sample rows.
- `eager_attention.py` stands in front of a model's own plain attention ("eager"), which would
  otherwise be seen as single products and softmaxes. It is described as one call of
  scaled_dot_product_attention, and only trusted after its output on a few rows equals what the
  description predicts.

Example: a GPT-2 with attn_implementation="eager" reads 3 sentences of 50 tokens.

1. transformers calls the mask function with q_length=50, kv_length=50, its rule `causal & padding`
   and a padding mask of (3, 50). The stand-in probes the rule at some pairs, finds
   `MaskFacts(sizes=(3, 1, 50, 50), window=Window(None, 0), offset=0, real=...)`, and returns a
   `LazyMask` of shape (3, 1, 50, 50). No dense mask exists yet.
2. Each layer asks for its attention function and gets the stand-in. It is called with query, key
   and value of (3, 12, 50, 64), describes the call with `recording.sdpa.describe_sdpa`, runs the
   model's own function on the rows 0, 16, 33 and 49 in float32, and compares.
3. They agree, so the call passes `_attend`, which is a registered tap: the watcher sees one
   attention call, observes it with the fast kernel, and returns context and lazy weights.
4. Had they not agreed (a model with a scoring of its own), the model's function would have run
   unchanged, and the data flow would have recognised its softmax.
"""
