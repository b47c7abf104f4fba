"""Checkpoints of BERT (Devlin et al. 2019): an encoder with or without a head."""

from typing import Any

from regard.models.checkpoints.families.family import CheckpointConfig, Family, Rule
from regard.models.transformer.config import PRESETS

__all__ = ["BERT"]

# Checkpoints converted from TensorFlow have these older names.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

RULES = (
    Rule("embeddings.word_embeddings.weight", "encoder.embeddings.tokens.weight"),
    Rule("embeddings.position_embeddings.weight", "encoder.embeddings.positions.table"),
    Rule("embeddings.token_type_embeddings.weight", "encoder.embeddings.types.weight"),
    Rule("embeddings.LayerNorm.*", "encoder.embeddings.norm.*"),
    Rule("encoder.layer.*.attention.self.query.*", "encoder.layers.*.attention.w_q.*"),
    Rule("encoder.layer.*.attention.self.key.*", "encoder.layers.*.attention.w_k.*"),
    Rule("encoder.layer.*.attention.self.value.*", "encoder.layers.*.attention.w_v.*"),
    Rule("encoder.layer.*.attention.output.dense.*", "encoder.layers.*.attention.w_o.*"),
    Rule("encoder.layer.*.attention.output.LayerNorm.*", "encoder.layers.*.norm_attention.*"),
    Rule("encoder.layer.*.intermediate.dense.*", "encoder.layers.*.feed_forward.up.*"),
    Rule("encoder.layer.*.output.dense.*", "encoder.layers.*.feed_forward.down.*"),
    Rule("encoder.layer.*.output.LayerNorm.*", "encoder.layers.*.norm_feed_forward.*"),
    Rule("pooler.dense.*", "pooler.dense.*"),
    Rule("cls.predictions.transform.dense.*", "head.transform.dense.*"),
    Rule("cls.predictions.transform.LayerNorm.*", "head.transform.norm.*"),
    Rule("cls.predictions.bias", "head.output.bias"),
    Rule("cls.predictions.decoder.*", "head.output.*"),
    Rule("classifier.*", "head.output.*"),
    Rule("qa_outputs.*", "head.output.*"),
)


def _settings(config: CheckpointConfig) -> dict[str, Any]:
    """The settings of a TransformerConfig for a BERT checkpoint."""
    config.refuse("position_embedding_type", "absolute")
    config.refuse("is_decoder", False)
    has_pooler = "pooler.dense.weight" in config.shapes
    return PRESETS["bert"] | {
        "vocab": config["vocab_size"],
        "d_model": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "d_ff": config["intermediate_size"],
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        "activation": config.activation("hidden_act", "gelu"),
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "max_positions": config.get("max_position_embeddings", 512),
        "types": config.get("type_vocab_size", 2),
        "tie_embeddings": config.get("tie_word_embeddings", True),
        "head_transform": config.head == "language",
        "output_bias": config.head == "language",
        "labels": config.shapes.get("classifier.weight", (2,))[0],
        "pooling": "pooler",
        "pooler": has_pooler and config.head in ("none", "classes"),
        "init_std": config.get("initializer_range", 0.02),
    }


BERT = Family(
    {
        "BertModel": "none",
        "BertForMaskedLM": "language",
        "BertForPreTraining": "language",
        "BertForSequenceClassification": "classes",
        "BertForQuestionAnswering": "spans",
    },
    "bert.",
    RULES,
    _settings,
    # Position ids are a constant buffer; next-sentence prediction has no counterpart here.
    ignored=("embeddings.position_ids", "cls.seq_relationship.*"),
    renamed=_OLD_NAMES,
)
