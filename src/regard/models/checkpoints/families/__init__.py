"""The families of Hugging Face checkpoints that become our Transformer, by their model_type."""

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
