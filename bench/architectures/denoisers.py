"""Tiny denoisers of pictures and videos of diffusers: the settings and inputs of each class."""

from collections.abc import Callable
from typing import Any

import torch

from bench.architectures.tensors import random_tensor

__all__ = ["DENOISERS"]

_STEP = torch.tensor([7, 7])
_SIZES = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
DENOISERS: dict[str, tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = {
    "UNet2DConditionModel": (
        {
            "block_out_channels": (32, 64),
            "layers_per_block": 1,
            "sample_size": 16,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "cross_attention_dim": 32,
            "attention_head_dim": 8,
            "norm_num_groups": 8,
        },
        lambda: {
            "sample": random_tensor(2, 4, 16, 16),
            "timestep": 7,
            "encoder_hidden_states": random_tensor(2, 7, 32),
        },
    ),
    "SD3Transformer2DModel": (
        {
            **_SIZES,
            "sample_size": 8,
            "patch_size": 2,
            "in_channels": 4,
            "joint_attention_dim": 32,
            "caption_projection_dim": 32,
            "pooled_projection_dim": 64,
            "out_channels": 4,
        },
        lambda: {
            "hidden_states": random_tensor(2, 4, 8, 8),
            "encoder_hidden_states": random_tensor(2, 7, 32),
            "pooled_projections": random_tensor(2, 64),
            "timestep": _STEP,
        },
    ),
    "FluxTransformer2DModel": (
        {
            **_SIZES,
            "in_channels": 4,
            "num_single_layers": 1,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 32,
            "axes_dims_rope": (4, 4, 8),
        },
        lambda: {
            "hidden_states": random_tensor(2, 16, 4),
            "encoder_hidden_states": random_tensor(2, 7, 32),
            "pooled_projections": random_tensor(2, 32),
            "timestep": torch.tensor([0.7, 0.7]),
            "img_ids": torch.zeros(16, 3),
            "txt_ids": torch.zeros(7, 3),
        },
    ),
    "DiTTransformer2DModel": (
        {**_SIZES, "in_channels": 4, "out_channels": 8, "sample_size": 8, "norm_num_groups": 8},
        lambda: {
            "hidden_states": random_tensor(2, 4, 8, 8),
            "timestep": _STEP,
            "class_labels": torch.tensor([1, 2]),
        },
    ),
    "PixArtTransformer2DModel": (
        {
            **_SIZES,
            "in_channels": 4,
            "out_channels": 8,
            "sample_size": 8,
            "cross_attention_dim": 32,
            "caption_channels": 32,
            "norm_num_groups": 8,
        },
        lambda: {
            "hidden_states": random_tensor(2, 4, 8, 8),
            "encoder_hidden_states": random_tensor(2, 7, 32),
            "timestep": _STEP,
            "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        },
    ),
    "SanaTransformer2DModel": (
        {
            **_SIZES,
            "in_channels": 4,
            "out_channels": 4,
            "sample_size": 8,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 16,
            "cross_attention_dim": 32,
            "caption_channels": 32,
        },
        lambda: {
            "hidden_states": random_tensor(2, 4, 8, 8),
            "encoder_hidden_states": random_tensor(2, 7, 32),
            "timestep": _STEP,
        },
    ),
    "CogVideoXTransformer3DModel": (
        {
            **_SIZES,
            "in_channels": 4,
            "out_channels": 4,
            "time_embed_dim": 8,
            "text_embed_dim": 32,
            "sample_width": 8,
            "sample_height": 8,
            "sample_frames": 9,
            "max_text_seq_length": 7,
        },
        lambda: {
            "hidden_states": random_tensor(2, 3, 4, 8, 8),
            "encoder_hidden_states": random_tensor(2, 7, 32),
            "timestep": _STEP,
        },
    ),
    "WanTransformer3DModel": (
        {
            **_SIZES,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 32,
            "freq_dim": 32,
            "ffn_dim": 32,
            "cross_attn_norm": True,
        },
        lambda: {
            "hidden_states": random_tensor(2, 4, 2, 8, 8),
            "encoder_hidden_states": random_tensor(2, 7, 32),
            "timestep": _STEP,
        },
    ),
    "UNetSpatioTemporalConditionModel": (
        {
            "block_out_channels": (32, 64),
            "layers_per_block": 1,
            "sample_size": 16,
            "down_block_types": (
                "CrossAttnDownBlockSpatioTemporal",
                "DownBlockSpatioTemporal",
            ),
            "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
            "cross_attention_dim": 32,
            "num_attention_heads": 4,
            "projection_class_embeddings_input_dim": 24,
            "addition_time_embed_dim": 8,
        },
        lambda: {
            "sample": random_tensor(2, 2, 8, 16, 16),
            "timestep": 7,
            "encoder_hidden_states": random_tensor(2, 1, 32),
            "added_time_ids": random_tensor(2, 3),
        },
    ),
}
