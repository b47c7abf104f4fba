"""Checkpoints of Marian, BART and mBART: encoder-decoders that differ in norms and positions."""

from typing import Any

from regard.models.checkpoints.families.family import CheckpointConfig, Family, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["BART", "MARIAN", "MBART"]


def _rules_of_side(side: str) -> tuple[Rule, ...]:
    """The rules of the encoder or of the decoder; both name their layers alike."""
    layer = f"{side}.layers.*"
    return (
        Rule(f"{side}.embed_tokens.weight", f"{side}.embeddings.tokens.weight"),
        # The first two rows are an offset of fairseq, which kept them for padding.
        Rule(f"{side}.embed_positions.weight", f"{side}.embeddings.positions.table", skip_rows=2),
        Rule(f"{side}.layernorm_embedding.*", f"{side}.embeddings.norm.*"),
        Rule(f"{side}.layer_norm.*", f"{side}.norm.*"),
        Rule(f"{layer}.self_attn.q_proj.*", f"{layer}.attention.w_q.*"),
        Rule(f"{layer}.self_attn.k_proj.*", f"{layer}.attention.w_k.*"),
        Rule(f"{layer}.self_attn.v_proj.*", f"{layer}.attention.w_v.*"),
        Rule(f"{layer}.self_attn.out_proj.*", f"{layer}.attention.w_o.*"),
        Rule(f"{layer}.self_attn_layer_norm.*", f"{layer}.norm_attention.*"),
        Rule(f"{layer}.encoder_attn.q_proj.*", f"{layer}.cross.w_q.*"),
        Rule(f"{layer}.encoder_attn.k_proj.*", f"{layer}.cross.w_k.*"),
        Rule(f"{layer}.encoder_attn.v_proj.*", f"{layer}.cross.w_v.*"),
        Rule(f"{layer}.encoder_attn.out_proj.*", f"{layer}.cross.w_o.*"),
        Rule(f"{layer}.encoder_attn_layer_norm.*", f"{layer}.norm_cross.*"),
        Rule(f"{layer}.fc1.*", f"{layer}.feed_forward.up.*"),
        Rule(f"{layer}.fc2.*", f"{layer}.feed_forward.down.*"),
        Rule(f"{layer}.final_layer_norm.*", f"{layer}.norm_feed_forward.*"),
    )


RULES = (
    Rule("shared.weight", "encoder.embeddings.tokens.weight"),
    Rule("lm_head.weight", "head.output.weight"),
    Rule("final_logits_bias", "head.output.bias"),
    *_rules_of_side("encoder"),
    *_rules_of_side("decoder"),
)


def _common_settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings that all three families have in common."""
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


def _marian_settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings for Marian: two vocabularies if the embeddings are not shared."""
    shared = config.get("share_encoder_decoder_embeddings", True)
    target = None if shared else config.get("decoder_vocab_size", config["vocab_size"])
    return PRESETS["marian"] | _common_settings(config) | {"target_vocab": target}


def _bart_settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings for BART."""
    return PRESETS["bart"] | _common_settings(config)


def _mbart_settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings for mBART: BART with norms before attention and feed-forward layers."""
    return _bart_settings(config) | {"norm_first": True}


MARIAN = Family(
    {"MarianMTModel": "language", "MarianModel": "none"},
    "model.",
    RULES,
    _marian_settings,
    # The sinusoidal table is computed, not loaded.
    ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
)
BART = Family(
    {"BartForConditionalGeneration": "language", "BartModel": "none"},
    "model.",
    RULES,
    _bart_settings,
)
MBART = Family(
    {"MBartForConditionalGeneration": "language", "MBartModel": "none"},
    "model.",
    RULES,
    _mbart_settings,
)
