"""Families of Hugging Face checkpoints that can be loaded into `regard.models.Transformer`.

One file per family holds a function from its config.json to settings of a TransformerConfig, and
rules that map names of its tensors to names of parameters. `FAMILIES` is keyed by `model_type` of
config.json. With GPT-2, for example, `Rule("wte.weight", "decoder.embeddings.tokens.weight")` loads
the embeddings, and one rule for `h.*.attn.c_attn.*` splits a tensor into the query, key and value
projections.
"""

from collections.abc import Mapping

from regard.models.checkpoints.families.bert import BERT
from regard.models.checkpoints.families.family import Family
from regard.models.checkpoints.families.gpt2 import GPT2
from regard.models.checkpoints.families.llama import LLAMA
from regard.models.checkpoints.families.marian import BART, MARIAN, MBART
from regard.models.checkpoints.families.vit import VIT

__all__ = ["FAMILIES", "Family"]

FAMILIES: Mapping[str, Family] = {
    "bart": BART,
    "bert": BERT,
    "gpt2": GPT2,
    "llama": LLAMA,
    "marian": MARIAN,
    "mbart": MBART,
    "vit": VIT,
}
