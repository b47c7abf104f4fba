"""Checkpoints of the Vision Transformer (Dosovitskiy et al. 2021): patches and a class token."""

from typing import Any

from regard.models.checkpoints.families.family import CheckpointConfig, Family, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["VIT"]

RULES = (
    Rule("embeddings.cls_token", "encoder.embeddings.first"),
    Rule("embeddings.position_embeddings", "encoder.embeddings.positions.table"),
    Rule("embeddings.patch_embeddings.projection.*", "encoder.embeddings.patches.*"),
    Rule("encoder.layer.*.layernorm_before.*", "encoder.layers.*.norm_attention.*"),
    Rule("encoder.layer.*.attention.attention.query.*", "encoder.layers.*.attention.w_q.*"),
    Rule("encoder.layer.*.attention.attention.key.*", "encoder.layers.*.attention.w_k.*"),
    Rule("encoder.layer.*.attention.attention.value.*", "encoder.layers.*.attention.w_v.*"),
    Rule("encoder.layer.*.attention.output.dense.*", "encoder.layers.*.attention.w_o.*"),
    Rule("encoder.layer.*.layernorm_after.*", "encoder.layers.*.norm_feed_forward.*"),
    Rule("encoder.layer.*.intermediate.dense.*", "encoder.layers.*.feed_forward.up.*"),
    Rule("encoder.layer.*.output.dense.*", "encoder.layers.*.feed_forward.down.*"),
    Rule("layernorm.*", "encoder.norm.*"),
    Rule("pooler.dense.*", "pooler.dense.*"),
    Rule("classifier.*", "head.output.*"),
)


def _settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings of a TransformerConfig for a ViT checkpoint."""
    config.refuse("pooler_act", "tanh")
    config.refuse("pooler_output_size", config["hidden_size"])
    config.refuse("qkv_bias", True)
    return PRESETS["vit"] | {
        "d_model": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "d_ff": config["intermediate_size"],
        "dropout": config.get("hidden_dropout_prob", 0.0),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.0),
        "activation": config.activation("hidden_act", "gelu"),
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "labels": config.shapes.get("classifier.weight", (2,))[0],
        "pooling": "first",
        "pooler": "pooler.dense.weight" in config.shapes,
        "image_size": _square_side(config, "image_size", 224),
        "patch": _square_side(config, "patch_size", 16),
        "channels": config.get("num_channels", 3),
        "init_std": config.get("initializer_range", 0.02),
    }


def _square_side(config: CheckpointConfig, key: str, default: int) -> int:
    """The side of a square in pixels, which config.json gives as n or as [n, n]."""
    value: int | list[int] = config.typed_value(key, int | list[int], default)
    if isinstance(value, list):
        config.refuse(key, value[:1] * 2)
        return value[0]
    return value


VIT = Family(
    {"ViTForImageClassification": "classes", "ViTModel": "none"},
    "vit.",
    RULES,
    _settings,
    # transformers 5 renames the modules while it loads; checkpoints keep their old names.
    modules=(Rule("encoder.layer.*.attention.attention", "layers.*.attention"),),
)
