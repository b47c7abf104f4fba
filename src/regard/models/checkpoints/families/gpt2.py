"""Checkpoints of GPT-2 (Radford et al. 2019).

Matrices are stored transposed, and the projections of query, key and value as one matrix.
"""

from typing import Any

from regard.models.checkpoints.families.family import CheckpointConfig, Family, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["GPT2"]

_ATTENTION = "decoder.layers.*.attention"

RULES = (
    Rule("wte.weight", "decoder.embeddings.tokens.weight"),
    Rule("wpe.weight", "decoder.embeddings.positions.table"),
    Rule("h.*.ln_1.*", "decoder.layers.*.norm_attention.*"),
    Rule(
        "h.*.attn.c_attn.*",
        f"{_ATTENTION}.w_q.* {_ATTENTION}.w_k.* {_ATTENTION}.w_v.*",
        transposed=True,
    ),
    Rule("h.*.attn.c_proj.*", f"{_ATTENTION}.w_o.*", transposed=True),
    Rule("h.*.ln_2.*", "decoder.layers.*.norm_feed_forward.*"),
    Rule("h.*.mlp.c_fc.*", "decoder.layers.*.feed_forward.up.*", transposed=True),
    Rule("h.*.mlp.c_proj.*", "decoder.layers.*.feed_forward.down.*", transposed=True),
    Rule("ln_f.*", "decoder.norm.*"),
    Rule("lm_head.weight", "head.output.weight"),
)


def _settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings of a TransformerConfig for a GPT-2 checkpoint."""
    config.refuse("scale_attn_by_inverse_layer_idx", False)
    config.refuse("add_cross_attention", False)
    width = config["n_embd"]
    return PRESETS["gpt2"] | {
        "vocab": config["vocab_size"],
        "d_model": width,
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "d_ff": config.get("n_inner", 4 * width),
        "max_positions": config["n_positions"],
        "dropout": config.get("resid_pdrop", 0.1),
        "attention_dropout": config.get("attn_pdrop", 0.1),
        "attention": "scaled-dot" if config.get("scale_attn_weights", True) else "dot",
        "activation": config.activation("activation_function", "gelu_new"),
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "tie_embeddings": config.get("tie_word_embeddings", True),
        "init_std": config.get("initializer_range", 0.02),
    }


GPT2 = Family(
    {"GPT2LMHeadModel": "language", "GPT2Model": "none"},
    "transformer.",
    RULES,
    _settings,
    # The causal mask, which some versions stored as a buffer.
    ignored=("h.*.attn.bias", "h.*.attn.masked_bias"),
)
