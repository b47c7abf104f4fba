"""Kinds of attention in models of transformers whose masks do not tell them."""

import pytest
import torch

import regard
from tracing.strangers import hf, needs_registries

pytestmark = [pytest.mark.usefixtures("unchecked"), needs_registries]

PAIR = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}
SERIES = PAIR | {"prediction_length": 5, "context_length": 11, "num_time_features": 1}


def detector():
    backbone = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    off = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    config = hf.DetrConfig(backbone_config=backbone, num_queries=7, **off, **PAIR)
    return hf.DetrModel(config), {"pixel_values": torch.randn(2, 3, 64, 64)}


def listener():
    tokens = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 4}
    sizes = {"vocab_size": 31, "max_source_positions": 11, "num_mel_bins": 5}
    config = hf.WhisperConfig(**tokens, **sizes, **PAIR)
    inputs = {"input_features": torch.randn(2, 5, 22), "decoder_input_ids": torch.full((2, 1), 4)}
    return hf.WhisperModel(config), inputs


def series(name):
    config = getattr(hf, f"{name}Config")(**SERIES, lags_sequence=[1, 2])
    past, future = torch.randn(2, 13), torch.randn(2, 5)
    inputs = {"past_values": past, "past_time_features": past[..., None]}
    inputs |= {"past_observed_mask": torch.ones(2, 13), "future_values": future}
    return getattr(hf, f"{name}Model")(config), inputs | {"future_time_features": future[..., None]}


def bytes_and_patches():
    if not hasattr(hf, "BltConfig"):
        pytest.skip("this transformers has no model of bytes")
    body = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
    body |= {"num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 31, "head_dim": 8}
    body |= {"cross_attn_k": 1}
    hashes = {"encoder_hash_byte_group_vocab": 50, "encoder_hash_byte_group_size": [2, 3]}
    parts = {f"{part}_config": dict(body) for part in ("patcher", "encoder", "global")}
    parts["decoder_config"] = body | {"hidden_size_global": 16}
    patching = {"patch_in_forward": False, "patch_size": 3, "patching_mode": "static"}
    config = hf.BltConfig(
        vocab_size=31,
        cross_attn_k=1,
        encoder_hash_byte_group_nb_functions=1,
        **(hashes | patching | parts),
    )
    return hf.BltModel(config), {"input_ids": torch.randint(5, 30, (2, 11)), "use_cache": False}


def kinds(model, inputs):
    with torch.no_grad(), regard.watch(model.eval()) as seen:
        model(**inputs)
    assert len(seen) == 2
    return {each.site: each.kind for each in seen[1]}


@pytest.mark.parametrize("make", [detector, listener])
def test_a_decoder_without_a_mask_is_one(make):
    for site, kind in kinds(*make()).items():
        expected = "cross" if "encoder_attn" in site else "decoder"
        assert kind == (expected if "decoder" in site else "encoder")


@pytest.mark.parametrize("name", ["Informer", "TimeSeriesTransformer"])
def test_the_future_of_a_series_attends_to_its_past(name):
    assert kinds(*series(name))["decoder.layers.0.encoder_attn"] == "cross"


def test_bytes_attend_to_patches_across():
    found = kinds(*bytes_and_patches())
    assert {site: kind for site, kind in found.items() if "cross" in site} == {
        "local_encoder.cross_attn_layers.0": "cross",
        "local_decoder.cross_attn_layers.0": "cross",
    }
    assert {kind for site, kind in found.items() if "self_attn" in site} == {"decoder"}
