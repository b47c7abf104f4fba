"""Llama (Touvron et al. 2023): RMSNorm, rotary halves, a gated feed-forward, grouped queries."""

from typing import Any

from regard.errors import FileError
from regard.models.checkpoints.families.family import Family, Reading, Rule
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


def _settings(reading: Reading) -> dict[str, Any]:
    width, heads = reading["hidden_size"], reading["num_attention_heads"]
    reading.refuse("head_dim", width // heads)
    return PRESETS["llama"] | {
        "vocab": reading["vocab_size"],
        "d_model": width,
        "layers": reading["num_hidden_layers"],
        "heads": heads,
        "key_heads": reading.get("num_key_value_heads", heads),
        "d_ff": reading["intermediate_size"],
        "attention_dropout": reading.get("attention_dropout", 0.0),
        "activation": reading.activation("hidden_act", "silu"),
        "bias": reading.get("mlp_bias", False),
        "attention_bias": reading.get("attention_bias", False),
        "norm_eps": reading.get("rms_norm_eps", 1e-6),
        "max_positions": reading.get("max_position_embeddings", 2048),
        "rotary_base": _base(reading),
        "tie_embeddings": reading.get("tie_word_embeddings", False),
        "init_std": reading.get("initializer_range", 0.02),
    }


def _base(reading: Reading) -> float:
    """The base of the angles; positions that are stretched are not supported."""
    rope = reading.get("rope_scaling", {}) | reading.get("rope_parameters", {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise FileError(
            f"{reading.folder / 'config.json'} stretches its rotary positions (rope_type "
            f"{kind!r}), which is not supported; expected 'default'"
        )
    return float(rope.get("rope_theta", reading.get("rope_theta", 10000.0)))


LLAMA = Family(
    {"LlamaForCausalLM": "language", "LlamaModel": "none"},
    "model.",
    RULES,
    _settings,
    ignored=("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
)
