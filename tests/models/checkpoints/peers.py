"""Tiny random models of transformers, saved as their checkpoints are."""

from typing import Any

import torch
import transformers as hf

SIDES = {
    "d_model": 12, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 23, "decoder_ffn_dim": 29,
    "max_position_embeddings": 19, "pad_token_id": 1, "vocab_size": 101,
}  # fmt: skip
GPT2 = {"vocab_size": 101, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 19}
LLAMA = {
    "vocab_size": 101, "hidden_size": 24, "intermediate_size": 29, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2,
}  # fmt: skip
BERT = {
    "vocab_size": 101, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 29, "max_position_embeddings": 19,
}  # fmt: skip
VIT = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 29,
    "image_size": 15, "patch_size": 5,
}  # fmt: skip
MARIAN = SIDES | {"decoder_start_token_id": 1, "activation_function": "swish"}


def _marian_of_two_vocabularies() -> Any:
    """Source and target have vocabularies of their own, of different sizes."""
    model = hf.MarianMTModel(
        hf.MarianConfig(
            **MARIAN, decoder_vocab_size=103, share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False,
        )
    )  # fmt: skip
    if model.get_decoder().embed_tokens.num_embeddings != 103:  # transformers 4 makes both alike
        model.resize_decoder_token_embeddings(103)
    return model


WRITERS: dict[str, Any] = {
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**MARIAN, scale_embedding=True)),
    "marian of two vocabularies": lambda: _marian_of_two_vocabularies(),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SIDES)),
    "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**SIDES)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)),
    "gpt2 unscaled": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            **GPT2, scale_attn_weights=False, n_inner=31, tie_word_embeddings=False,
            attn_implementation="eager",  # transformers 4 scales all the same in its other form
        )
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA)),
    "llama tied": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(
            **LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
            # transformers 4 reads the first, 5 the second
            rope_theta=500.0, rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
    ),
}  # fmt: skip
READERS: dict[str, Any] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**BERT)),
    "bert without pooler": lambda: hf.BertModel(hf.BertConfig(**BERT), add_pooling_layer=False),
    "bert of masks": lambda: hf.BertForMaskedLM(hf.BertConfig(**BERT)),
    "bert of two tasks": lambda: hf.BertForPreTraining(hf.BertConfig(**BERT)),
    "bert of classes": lambda: hf.BertForSequenceClassification(
        hf.BertConfig(**BERT, num_labels=5)
    ),
    "bert of answers": lambda: hf.BertForQuestionAnswering(hf.BertConfig(**BERT)),
}
VIEWERS: dict[str, Any] = {
    "vit": lambda: hf.ViTModel(hf.ViTConfig(**VIT)),
    "vit of classes": lambda: hf.ViTForImageClassification(hf.ViTConfig(**VIT, num_labels=7)),
}
PEERS = WRITERS | READERS | VIEWERS


def peer(name: str) -> Any:
    """One of them, none of its numbers zero or one by default."""
    model = PEERS[name]().eval()
    with torch.no_grad():
        drawn = [each for each in model.parameters() if each.requires_grad]  # no sinusoids
        for each in (*drawn, getattr(model, "final_logits_bias", torch.zeros(1))):
            each.add_(torch.randn_like(each) * 0.1)
    return model
