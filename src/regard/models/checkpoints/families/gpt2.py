"""GPT-2 (Radford et al. 2019): its matrices are stored the other way round, q, k, v as one."""

from typing import Any

from regard.models.checkpoints.families.family import Family, Reading, Rule
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
        turned=True,
    ),
    Rule("h.*.attn.c_proj.*", f"{_ATTENTION}.w_o.*", turned=True),
    Rule("h.*.ln_2.*", "decoder.layers.*.norm_feed_forward.*"),
    Rule("h.*.mlp.c_fc.*", "decoder.layers.*.feed_forward.up.*", turned=True),
    Rule("h.*.mlp.c_proj.*", "decoder.layers.*.feed_forward.down.*", turned=True),
    Rule("ln_f.*", "decoder.norm.*"),
    Rule("lm_head.weight", "head.output.weight"),
)


def _settings(reading: Reading) -> dict[str, Any]:
    reading.refuse("scale_attn_by_inverse_layer_idx", False)
    reading.refuse("add_cross_attention", False)
    width = reading["n_embd"]
    return PRESETS["gpt2"] | {
        "vocab": reading["vocab_size"],
        "d_model": width,
        "layers": reading["n_layer"],
        "heads": reading["n_head"],
        "d_ff": reading.get("n_inner", 4 * width),
        "max_positions": reading["n_positions"],
        "dropout": reading.get("resid_pdrop", 0.1),
        "attention_dropout": reading.get("attn_pdrop", 0.1),
        "attention": "scaled-dot" if reading.get("scale_attn_weights", True) else "dot",
        "activation": reading.activation("activation_function", "gelu_new"),
        "norm_eps": reading.get("layer_norm_epsilon", 1e-5),
        "tie_embeddings": reading.get("tie_word_embeddings", True),
        "init_std": reading.get("initializer_range", 0.02),
    }


GPT2 = Family(
    {"GPT2LMHeadModel": "language", "GPT2Model": "none"},
    "transformer.",
    RULES,
    _settings,
    ignored=("h.*.attn.bias", "h.*.attn.masked_bias"),
)
