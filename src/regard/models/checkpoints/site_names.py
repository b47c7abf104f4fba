"""The names that a converted checkpoint's attention modules have in transformers."""

from torch import nn

from regard.attention import MultiHeadAttention
from regard.models.checkpoints.families import Family
from regard.models.transformer.config import TransformerConfig

__all__ = ["original_site_names"]


def original_site_names(
    model: nn.Module, config: TransformerConfig, family: Family
) -> dict[str, str]:
    """For the path of each attention module here, its path in the model of transformers.

    The rules of a family translate names of parameters, and the query projection is a child of the
    attention module on both sides. So for Llama `decoder.layers.5.attention` is found by way of
    `decoder.layers.5.attention.w_q.weight`, which is `layers.5.self_attn.q_proj.weight` there: its
    name is `model.layers.5.self_attn`. A model without a head has no prefix such as `model.`.
    """
    prefix = "" if config.head == "none" else family.prefix
    names = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            query_weight = family.file_name(f"{path}.w_q.weight")
            names[path] = prefix + family.module_path(query_weight.rsplit(".", 2)[0])
    return names
