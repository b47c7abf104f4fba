"""Marian, BART and mBART: encoder-decoders that differ in norms and positions."""

from typing import Any

from regard.models.checkpoints.families.family import Family, Reading, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["BART", "MARIAN", "MBART"]


def _side(side: str) -> tuple[Rule, ...]:
    theirs, ours = f"{side}.layers.*", f"{side}.layers.*"
    return (
        Rule(f"{side}.embed_tokens.weight", f"{side}.embeddings.tokens.weight"),
        Rule(f"{side}.embed_positions.weight", f"{side}.embeddings.positions.table", skip=2),
        Rule(f"{side}.layernorm_embedding.*", f"{side}.embeddings.norm.*"),
        Rule(f"{side}.layer_norm.*", f"{side}.norm.*"),
        Rule(f"{theirs}.self_attn.q_proj.*", f"{ours}.attention.w_q.*"),
        Rule(f"{theirs}.self_attn.k_proj.*", f"{ours}.attention.w_k.*"),
        Rule(f"{theirs}.self_attn.v_proj.*", f"{ours}.attention.w_v.*"),
        Rule(f"{theirs}.self_attn.out_proj.*", f"{ours}.attention.w_o.*"),
        Rule(f"{theirs}.self_attn_layer_norm.*", f"{ours}.norm_attention.*"),
        Rule(f"{theirs}.encoder_attn.q_proj.*", f"{ours}.cross.w_q.*"),
        Rule(f"{theirs}.encoder_attn.k_proj.*", f"{ours}.cross.w_k.*"),
        Rule(f"{theirs}.encoder_attn.v_proj.*", f"{ours}.cross.w_v.*"),
        Rule(f"{theirs}.encoder_attn.out_proj.*", f"{ours}.cross.w_o.*"),
        Rule(f"{theirs}.encoder_attn_layer_norm.*", f"{ours}.norm_cross.*"),
        Rule(f"{theirs}.fc1.*", f"{ours}.feed_forward.up.*"),
        Rule(f"{theirs}.fc2.*", f"{ours}.feed_forward.down.*"),
        Rule(f"{theirs}.final_layer_norm.*", f"{ours}.norm_feed_forward.*"),
    )


RULES = (
    Rule("shared.weight", "encoder.embeddings.tokens.weight"),
    Rule("lm_head.weight", "head.output.weight"),
    Rule("final_logits_bias", "head.output.bias"),
    *_side("encoder"),
    *_side("decoder"),
)


def _sizes(reading: Reading) -> dict[str, Any]:
    return {
        "vocab": reading["vocab_size"],
        "d_model": reading["d_model"],
        "layers": reading["encoder_layers"],
        "decoder_layers": reading["decoder_layers"],
        "heads": reading["encoder_attention_heads"],
        "decoder_heads": reading["decoder_attention_heads"],
        "d_ff": reading["encoder_ffn_dim"],
        "decoder_d_ff": reading["decoder_ffn_dim"],
        "dropout": reading.get("dropout", 0.1),
        "attention_dropout": reading.get("attention_dropout", 0.0),
        "activation_dropout": reading.get("activation_dropout", 0.0),
        "activation": reading.activation("activation_function", "gelu"),
        "scale_embedding": reading.get("scale_embedding", False),
        "tie_embeddings": reading.get("tie_word_embeddings", True),
        "max_positions": reading.get("max_position_embeddings", 1024),
        "init_std": reading.get("init_std", 0.02),
        "output_bias": reading.head == "language",
    }


def _marian(reading: Reading) -> dict[str, Any]:
    shared = reading.get("share_encoder_decoder_embeddings", True)
    target = None if shared else reading.get("decoder_vocab_size", reading["vocab_size"])
    return PRESETS["marian"] | _sizes(reading) | {"target_vocab": target}


def _bart(reading: Reading) -> dict[str, Any]:
    return PRESETS["bart"] | _sizes(reading)


def _mbart(reading: Reading) -> dict[str, Any]:
    return _bart(reading) | {"norm_first": True}


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
