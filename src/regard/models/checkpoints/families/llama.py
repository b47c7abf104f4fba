"""Checkpoints of Llama (Touvron et al. 2023).

RMSNorm, rotary positions, a gated feed-forward layer, and grouped-query attention.
"""

from typing import Any

from regard.errors import FileError
from regard.models.checkpoints.families.family import CheckpointConfig, Family, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["LLAMA"]

RULES = (
    Rule("embed_tokens.weight", "decoder.embeddings.tokens.weight"),
    Rule("layers.*.input_layernorm.weight", "decoder.layers.*.norm_attention.weight"),
    Rule("layers.*.self_attn.q_proj.*", "decoder.layers.*.attention.w_q.*"),
    Rule("layers.*.self_attn.k_proj.*", "decoder.layers.*.attention.w_k.*"),
    Rule("layers.*.self_attn.v_proj.*", "decoder.layers.*.attention.w_v.*"),
    Rule("layers.*.self_attn.o_proj.*", "decoder.layers.*.attention.w_o.*"),
    Rule("layers.*.post_attention_layernorm.weight", "decoder.layers.*.norm_feed_forward.weight"),
    Rule("layers.*.mlp.gate_proj.*", "decoder.layers.*.feed_forward.gate.*"),
    Rule("layers.*.mlp.up_proj.*", "decoder.layers.*.feed_forward.up.*"),
    Rule("layers.*.mlp.down_proj.*", "decoder.layers.*.feed_forward.down.*"),
    Rule("norm.weight", "decoder.norm.weight"),
    Rule("lm_head.weight", "head.output.weight"),
)


def _settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings of a TransformerConfig for a Llama checkpoint."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    config.refuse("head_dim", width // max(1, heads))
    return PRESETS["llama"] | {
        "vocab": config["vocab_size"],
        "d_model": width,
        "layers": config["num_hidden_layers"],
        "heads": heads,
        "key_heads": config.get("num_key_value_heads", heads),
        "d_ff": config["intermediate_size"],
        "attention_dropout": config.get("attention_dropout", 0.0),
        "activation": config.activation("hidden_act", "silu"),
        "bias": config.get("mlp_bias", False),
        "attention_bias": config.get("attention_bias", False),
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "max_positions": config.get("max_position_embeddings", 2048),
        "rotary_base": _rotary_base(config),
        "tie_embeddings": config.get("tie_word_embeddings", False),
        "init_std": config.get("initializer_range", 0.02),
    }


def _rotary_base(config: CheckpointConfig) -> float:
    """The base of the rotary angles; a FileError if positions are scaled (rope_scaling)."""
    # transformers 5 renamed rope_scaling to rope_parameters and moved rope_theta into it.
    rope = config.typed_value("rope_scaling", dict, {}) | config.typed_value(
        "rope_parameters", dict, {}
    )
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise FileError(
            f"{config.folder / 'config.json'} stretches its rotary positions (rope_type "
            f"{kind!r}), which is not supported; expected 'default'"
        )
    base: float = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    return base


LLAMA = Family(
    {"LlamaForCausalLM": "language", "LlamaModel": "none"},
    "model.",
    RULES,
    _settings,
    # The rotary frequencies follow from the base; old checkpoints stored them as well.
    ignored=("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
)
