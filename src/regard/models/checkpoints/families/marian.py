"""Marian, BART and mBART: encoder-decoders that differ in norms and positions."""

from typing import Any

from regard.models.checkpoints.families.family import CheckpointConfig, Family, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["BART", "MARIAN", "MBART"]


def _side(side: str) -> tuple[Rule, ...]:
    file_name, ours = f"{side}.layers.*", f"{side}.layers.*"
    return (
        Rule(f"{side}.embed_tokens.weight", f"{side}.embeddings.tokens.weight"),
        Rule(f"{side}.embed_positions.weight", f"{side}.embeddings.positions.table", skip_rows=2),
        Rule(f"{side}.layernorm_embedding.*", f"{side}.embeddings.norm.*"),
        Rule(f"{side}.layer_norm.*", f"{side}.norm.*"),
        Rule(f"{file_name}.self_attn.q_proj.*", f"{ours}.attention.w_q.*"),
        Rule(f"{file_name}.self_attn.k_proj.*", f"{ours}.attention.w_k.*"),
        Rule(f"{file_name}.self_attn.v_proj.*", f"{ours}.attention.w_v.*"),
        Rule(f"{file_name}.self_attn.out_proj.*", f"{ours}.attention.w_o.*"),
        Rule(f"{file_name}.self_attn_layer_norm.*", f"{ours}.norm_attention.*"),
        Rule(f"{file_name}.encoder_attn.q_proj.*", f"{ours}.cross.w_q.*"),
        Rule(f"{file_name}.encoder_attn.k_proj.*", f"{ours}.cross.w_k.*"),
        Rule(f"{file_name}.encoder_attn.v_proj.*", f"{ours}.cross.w_v.*"),
        Rule(f"{file_name}.encoder_attn.out_proj.*", f"{ours}.cross.w_o.*"),
        Rule(f"{file_name}.encoder_attn_layer_norm.*", f"{ours}.norm_cross.*"),
        Rule(f"{file_name}.fc1.*", f"{ours}.feed_forward.up.*"),
        Rule(f"{file_name}.fc2.*", f"{ours}.feed_forward.down.*"),
        Rule(f"{file_name}.final_layer_norm.*", f"{ours}.norm_feed_forward.*"),
    )


RULES = (
    Rule("shared.weight", "encoder.embeddings.tokens.weight"),
    Rule("lm_head.weight", "head.output.weight"),
    Rule("final_logits_bias", "head.output.bias"),
    *_side("encoder"),
    *_side("decoder"),
)


def _sizes(config: CheckpointConfig) -> dict[str, Any]:
    return {
        "vocab": config["vocab_size"],
        "d_model": config["d_model"],
        "layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "heads": config["encoder_attention_heads"],
        "decoder_heads": config["decoder_attention_heads"],
        "d_ff": config["encoder_ffn_dim"],
        "decoder_d_ff": config["decoder_ffn_dim"],
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "activation_dropout": config.get("activation_dropout", 0.0),
        "activation": config.activation("activation_function", "gelu"),
        "scale_embedding": config.get("scale_embedding", False),
        "tie_embeddings": config.get("tie_word_embeddings", True),
        "max_positions": config.get("max_position_embeddings", 1024),
        "init_std": config.get("init_std", 0.02),
        "output_bias": config.head == "language",
    }


def _marian(config: CheckpointConfig) -> dict[str, Any]:
    shared = config.get("share_encoder_decoder_embeddings", True)
    target = None if shared else config.get("decoder_vocab_size", config["vocab_size"])
    return PRESETS["marian"] | _sizes(config) | {"target_vocab": target}


def _bart(config: CheckpointConfig) -> dict[str, Any]:
    return PRESETS["bart"] | _sizes(config)


def _mbart(config: CheckpointConfig) -> dict[str, Any]:
    return _bart(config) | {"norm_first": True}


MARIAN = Family(
    {"MarianMTModel": "language", "MarianModel": "none"},
    "model.",
    RULES,
    _marian,
    ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
)
BART = Family(
    {"BartForConditionalGeneration": "language", "BartModel": "none"}, "model.", RULES, _bart
)
MBART = Family(
    {"MBartForConditionalGeneration": "language", "MBartModel": "none"}, "model.", RULES, _mbart
)
