"""Checkpoints: saving models to folders, and loading our own and those of Hugging Face.

    pretrained.py          Pretrained (save_pretrained) and from_pretrained
    locations.py           a shipped name, a path or a hub name -> the folder
    files.py               config.json and the tensors of a folder, read safely
    families/              one file for each model_type of Hugging Face that we can convert
    parameter_mapping.py   tensors of the file -> parameters of the model, each exactly once
    site_names.py          the module paths that a converted model has in transformers
    registry.py            classes by the name that config.json gives

An example, `from_pretrained("./gpt2")`. The folder's config.json says `"model_type": "gpt2"`, so
`families.FAMILIES["gpt2"]` makes a TransformerConfig of it (`n_embd` becomes `d_model`, and so on)
and the model is built without drawing random weights. Then each tensor of model.safetensors goes
through the rules of the family. The rule ::

    Rule("h.*.attn.c_attn.*",
         "decoder.layers.*.attention.w_q.* ... w_k.* ... w_v.*", transposed=True)

maps `transformer.h.5.attn.c_attn.weight`, after removing the prefix `transformer.`, to the three
parameters `decoder.layers.5.attention.w_q.weight`, `.w_k.weight` and `.w_v.weight`: the matrix is
transposed and cut into three equal parts. A tensor that no rule matches, and a parameter that no
tensor fills, is an error that names it.
"""

from regard.models.checkpoints.locations import shipped_models
from regard.models.checkpoints.pretrained import Pretrained, from_pretrained
from regard.models.checkpoints.registry import register

__all__ = ["Pretrained", "from_pretrained", "register", "shipped_models"]
