"""Masks as short descriptions, read back from what a model hands to its attention function.

A model rarely says "causal, and the first two keys are padding". It hands over a dense tensor, or a
rule on indices. A trace should keep the short form: it takes no memory, it answers questions such
as "is this causal?" at once, and the fast kernels understand it. This package turns one into the
other. It knows nothing of models, modules or recording; it only uses `regard.masks`.

Three modules, one for each form in which a mask arrives:

- `dense.py`: a tensor of truth values, or of numbers that are added to the scores (0 for a visible
  key, minus infinity or nearly so for a hidden one).
- `index_rules.py`: a function of (example, head, query, key) that returns whether the query may see
  the key, as flex_attention and transformers write them. The function is evaluated at places that
  decide between the candidates, described, and checked at many more places. The result is a
  `MaskFacts`: a window, which keys are real, and segments.
- `lazy.py`: a `LazyMask`, a tensor that looks like the dense mask but is only made when its numbers
  are read. Until then it carries its `MaskFacts`.

Example: two sentences of 4 tokens, the second padded at the left, in a causal model.

    >>> import torch
    >>> from regard.tracing.mask_reading.dense import describe_dense_mask
    >>> real = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]], dtype=torch.bool)
    >>> visible = torch.ones(4, 4, dtype=torch.bool).tril() & real[:, None, None]
    >>> mask = describe_dense_mask(visible)
    >>> [type(part).__name__ for part in mask.parts]
    ['Window', 'Padding']
    >>> mask.parts[0].left, mask.parts[0].right  # any number of keys back, none ahead
    (None, 0)

Who calls what: `recording.sdpa` reads the mask of every scaled_dot_product_attention with
`dense.read_mask`; `recording.flex` reads the rules of flex_attention with
`index_rules.read_index_rule`; `huggingface.mask_functions` makes `LazyMask`s in place of the dense
masks of transformers; `assembly` describes the masks of stacked decoding steps.
"""
