"""The Transformer, one implementation for encoders, decoders, both together, and vision models.

    config.py            TransformerConfig: every architecture is a set of its settings
    model.py             Transformer: forward, and begin/step for generation
    embeddings.py        tokens or patches -> vectors with positions
    layers.py            Layer (attention, feed-forward) and Stack (an encoder or a decoder)
    heads.py             vectors -> logits
    initialisation.py    random weights;  quantisation.py: 8-bit matrices

Generation has two paths with the same results. `begin` chooses between them:

    kv_cache.py          TransformerState: the layers run as modules, each with its cache
    native_decoder.py    NativeDecoderState: no modules, one cache for all layers
    layer_parameters.py  takes the parameters out of the modules for it
    native_step.py       gives them to C++, which computes a whole step

The native decoder keeps the keys and values of all layers in one tensor
`cache[layer, position, row, side, head, dim]`, and a table `cache_rows[row, position]` that says in
which row of the cache a batch row finds each position. An example with two beams: after two tokens
the table is ::

    cache_rows = [[0, 0],     row 0 read both tokens in cache row 0
                  [1, 1]]     row 1 read both in cache row 1

Beam search now continues row 1 twice, with different tokens, and drops row 0. `select([1, 1])` only
reorders the table, no key or value is copied; the next step writes each row to its own cache row::

    cache_rows = [[1, 1, 0],
                  [1, 1, 1]]

Row 0 now finds its first two positions in cache row 1, where they were written, and its third in
cache row 0. The C++ attention reads the cache through this table. `TransformerState.select` copies
the rows of every layer's cache instead. When someone begins to watch in the middle of a generation,
`to_transformer_state` turns one state into the other, and the layers take over.
"""
