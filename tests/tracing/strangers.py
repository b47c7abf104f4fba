"""Small models with random weights that nobody here wrote, and what to feed them."""

import copy
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
import transformers as hf
from transformers import modeling_utils

# Before version 5, models ask no registry for plain attention and make masks from cache positions:
# `watch` then reads dense masks, and recognises plain attention by its softmax.
HAS_REGISTRIES = hasattr(modeling_utils.AttentionInterface, "get_interface")
needs_registries = pytest.mark.skipif(
    not HAS_REGISTRIES, reason="transformers before 5 has no registry of plain attention"
)

BATCH, LENGTH, TARGET, VOCABULARY, WIDTH, HEADS = 2, 7, 5, 101, 48, 4

_BODY = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
}
_TEXT = _BODY | {"vocab_size": VOCABULARY}
_GROUPED = _TEXT | {"num_key_value_heads": 2}
_OLD = {"n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "vocab_size": VOCABULARY}
_PAIR = {
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

MODELS = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**_TEXT)),
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(**_TEXT, embedding_size=24)),
    "modernbert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(**_TEXT, pad_token_id=0, local_attention=4)
    ),
    "deberta-v2": lambda: hf.DebertaV2Model(
        hf.DebertaV2Config(
            **_TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16
        )
    ),
    "xlnet": lambda: hf.XLNetModel(
        hf.XLNetConfig(d_model=WIDTH, n_layer=2, n_head=HEADS, d_inner=64, vocab_size=VOCABULARY)
    ),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**_OLD, n_positions=64)),
    "gptj": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**_OLD, rotary_dim=8, n_positions=64)),
    "bloom": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(hidden_size=WIDTH, n_layer=2, n_head=HEADS, vocab_size=VOCABULARY)
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_GROUPED)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**_GROUPED, sliding_window=4)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**_GROUPED, head_dim=12, sliding_window=4)
    ),
    "gpt-oss": lambda: hf.GptOssForCausalLM(
        hf.GptOssConfig(
            **_GROUPED, head_dim=12, sliding_window=4, num_local_experts=2, num_experts_per_tok=1
        )
    ),
    "deepseek-v3": lambda: hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(
            **_TEXT,
            num_key_value_heads=HEADS,
            moe_intermediate_size=16,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=12,
        )
    ),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**_PAIR)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**_PAIR)),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(
            d_model=WIDTH,
            num_layers=2,
            num_heads=HEADS,
            d_kv=12,
            d_ff=64,
            vocab_size=VOCABULARY,
            decoder_start_token_id=0,
        )
    ),
    "whisper": lambda: hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            **_PAIR | {"max_target_positions": 64}, num_mel_bins=8, max_source_positions=16
        )
    ),
    "falcon": lambda: hf.FalconForCausalLM(
        hf.FalconConfig(
            hidden_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            vocab_size=VOCABULARY,
            new_decoder_architecture=True,
            num_kv_heads=2,
        )
    ),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_GROUPED, head_dim=12)),
    "mpnet": lambda: hf.MPNetModel(hf.MPNetConfig(**_TEXT)),
    "vit": lambda: hf.ViTModel(hf.ViTConfig(**_BODY, image_size=16, patch_size=4)),
}

# whose own weights are asked for in another way
PICTURES = {
    "swin": lambda: hf.SwinModel(
        hf.SwinConfig(
            image_size=16,
            patch_size=2,
            embed_dim=12,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        )
    ),
    "clip": lambda: hf.CLIPModel(
        hf.CLIPConfig(
            text_config=_TEXT | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
            vision_config=_BODY | {"image_size": 16, "patch_size": 4},
            projection_dim=16,
        )
    ),
}

GAPS = {
    "longformer": lambda: hf.LongformerModel(
        hf.LongformerConfig(**_TEXT, attention_window=[4, 4], max_position_embeddings=64)
    ),
}

PAIRS = ("marian", "bart", "t5", "whisper")
DECODERS = (
    *("gpt2", "gptj", "bloom", "llama", "mistral", "gemma2", "gpt-oss", "deepseek-v3", "falcon"),
    "qwen3",
)
WITHOUT_PADDING = ("vit", "whisper")


def model(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    return (MODELS | PICTURES | GAPS)[name]().eval()


def eager(model: torch.nn.Module) -> torch.nn.Module:
    """The same model, attending by products and a softmax that it returns."""
    config = copy.deepcopy(model.config)
    plain = type(model)._from_config(config, attn_implementation="eager").eval()
    plain.load_state_dict(model.state_dict())
    return plain


def tokens(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY - 1, (BATCH, length))


def real(padded: str | None, length: int = LENGTH) -> torch.Tensor:
    """Which tokens are real: two of the first example are padding, on one side."""
    mask = torch.ones(BATCH, length, dtype=torch.long)
    if padded == "left":
        mask[0, :2] = 0
    elif padded == "right":
        mask[0, -2:] = 0
    return mask


def inputs(name: str, padded: str | None = None) -> dict[str, torch.Tensor]:
    if name in ("vit", "swin"):
        return {"pixel_values": torch.randn(BATCH, 3, 16, 16)}
    if name == "whisper":
        return {"input_features": torch.randn(BATCH, 8, 32), "decoder_input_ids": tokens(TARGET)}
    feed = {"input_ids": tokens(), "attention_mask": real(padded)}
    if name == "clip":
        return feed | {"pixel_values": torch.randn(BATCH, 3, 16, 16)}
    return feed | ({"decoder_input_ids": tokens(TARGET)} if name in PAIRS else {})
