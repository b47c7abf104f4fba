"""The Vision Transformer (Dosovitskiy et al. 2021): patches and a class token."""

from typing import Any

from regard.models.checkpoints.families.family import Family, Reading, Rule
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


def _settings(reading: Reading) -> dict[str, Any]:
    reading.refuse("pooler_act", "tanh")
    reading.refuse("pooler_output_size", reading["hidden_size"])
    reading.refuse("qkv_bias", True)
    return PRESETS["vit"] | {
        "d_model": reading["hidden_size"],
        "layers": reading["num_hidden_layers"],
        "heads": reading["num_attention_heads"],
        "d_ff": reading["intermediate_size"],
        "dropout": reading.get("hidden_dropout_prob", 0.0),
        "attention_dropout": reading.get("attention_probs_dropout_prob", 0.0),
        "activation": reading.activation("hidden_act", "gelu"),
        "norm_eps": reading.get("layer_norm_eps", 1e-12),
        "labels": reading.shapes.get("classifier.weight", (2,))[0],
        "pooling": "first",
        "pooler": "pooler.dense.weight" in reading.shapes,
        "image_size": _side(reading, "image_size", 224),
        "patch": _side(reading, "patch_size", 16),
        "channels": reading.get("num_channels", 3),
        "init_std": reading.get("initializer_range", 0.02),
    }


def _side(reading: Reading, key: str, default: int) -> int:
    """The side of a square, which may be written twice."""
    value = reading.get(key, default)
    if isinstance(value, list):
        reading.refuse(key, [value[0]] * 2)
        return int(value[0])
    return int(value)


VIT = Family(
    {"ViTForImageClassification": "classes", "ViTModel": "none"},
    "vit.",
    RULES,
    _settings,
    # transformers 5 renames the modules while it loads, and checkpoints keep their old names
    modules=(Rule("encoder.layer.*.attention.attention", "layers.*.attention"),),
)
