"""Inputs of a model, made from the signature of its `forward`: what to try, best first.

`candidate_inputs(model)` gives dictionaries of tensors. Text comes first, then pictures and sounds
in the forms that models take, alone and beside text. Arguments that `forward` requires and that
follow from others (masks, grids of patches) are filled in by name. `build.py` takes the first with
which the model runs.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bench.architectures.shrink import VOCABULARY, walk_configs

__all__ = ["BATCH", "candidate_inputs", "token_ids"]

BATCH, LENGTH, TARGET = 2, 11, 5
_ORDINARY = (10, 97)  # ids of ordinary tokens; `shrink` puts special ones above

Inputs = dict[str, Any]


class Facts:
    """Sizes that a config states under several names, in itself or in the configs inside it."""

    def __init__(self, config: Any) -> None:
        self.configs = list(walk_configs(config)) if config is not None else []

    def size(self, *names: str, default: int) -> int:
        """The first of the attributes that is a number, or the first number of a list."""
        for config in self.configs:
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, list | tuple) and value:
                    value = value[0]
                if isinstance(value, dict):
                    value = next(iter(value.values()), None)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return default


def candidate_inputs(model: nn.Module) -> Iterator[Inputs]:
    """Inputs to try, best first."""
    generator = torch.Generator().manual_seed(0)
    parameters = inspect.signature(model.forward).parameters
    facts = Facts(getattr(model, "config", None))
    text = _text_inputs(parameters, facts, generator)
    target = {}
    if "decoder_input_ids" in parameters:
        target = {"decoder_input_ids": token_ids(facts, (BATCH, TARGET), generator)}
    forms = [
        (name, value)
        for name, value in [*_pictures(facts, generator), *_sounds(facts, generator)]
        if name in parameters
    ]
    needed = _required(parameters)
    for inputs in _combine(text, target, forms, needed):
        yield _fill_required(inputs, needed, facts, generator)


def _combine(
    text: Inputs, target: Inputs, forms: list[tuple[str, Tensor]], needed: set[str]
) -> Iterator[Inputs]:
    """Text, pictures and sounds alone and together; two towers before one."""
    if text and any(name == "pixel_values" for name, _ in forms):
        yield {**text, **target, forms[0][0]: forms[0][1]}
    if text or target:
        yield {**text, **target}
    for name, value in forms:
        yield {name: value, **target}
        if text:
            yield {name: value, **text, **target}
    if text and target:
        yield dict(text)
    yield {}


def _required(parameters: Any) -> set[str]:
    """The names of arguments that have no default."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind in kinds
    }


def token_ids(facts: Facts, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Ids of ordinary tokens."""
    vocabulary = facts.size("vocab_size", "n_vocab", "codebook_size", default=VOCABULARY)
    high = max(2, min(_ORDINARY[1], vocabulary - 1))
    return torch.randint(min(_ORDINARY[0], high - 1), high, shape, generator=generator)


def _text_inputs(parameters: Any, facts: Facts, generator: torch.Generator) -> Inputs:
    """Token ids with what belongs to them."""
    if "input_ids" not in parameters:
        return {}
    shape: tuple[int, ...] = (BATCH, LENGTH)
    inputs: Inputs = {"input_ids": token_ids(facts, shape, generator)}
    if "attention_mask" in parameters:
        inputs["attention_mask"] = torch.ones(shape, dtype=torch.long)
    if "bbox" in parameters:
        inputs["bbox"] = torch.randint(0, 50, (*shape, 4), generator=generator).sort(-1).values
    features = facts.size("visual_feat_dim", "visual_embedding_dim", default=32)
    if "visual_feats" in parameters:
        inputs["visual_feats"] = torch.randn(BATCH, 7, features, generator=generator)
        inputs["visual_pos"] = torch.rand(BATCH, 7, 4, generator=generator)
    if "qformer_input_ids" in parameters:
        inputs["qformer_input_ids"] = token_ids(facts, (BATCH, 7), generator)
    return inputs


def _pictures(facts: Facts, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Pictures in the forms that models take: one, several, patches, frames."""
    channels = facts.size("num_channels", "in_channels", "in_chans", default=3)
    size = facts.size("image_size", "img_size", "resolution", default=32)
    frames = facts.size("num_frames", "frames_per_clip", default=4)
    for side in dict.fromkeys((size, 64, 224)):
        yield "pixel_values", torch.randn(BATCH, channels, side, side, generator=generator)
    patch = facts.size("patch_size", default=8)
    temporal = facts.size("temporal_patch_size", default=1)
    width = channels * temporal * patch * patch
    for name in ("hidden_states", "pixel_values"):
        yield name, torch.randn(BATCH * 16, width, generator=generator)
    yield "pixel_values", torch.randn(BATCH, 16, width, generator=generator)
    yield "pixel_values", torch.randn(BATCH * 16, channels, patch, patch, generator=generator)
    for side in dict.fromkeys((size, 64)):
        for count in dict.fromkeys((2, frames)):
            shape = (BATCH, count, channels, side, side)
            yield "pixel_values", torch.randn(shape, generator=generator)
            yield "pixel_values_videos", torch.randn(shape, generator=generator)
    yield "flattened_patches", torch.rand(BATCH, 16, width + 2, generator=generator)
    yield "pixel_values", torch.randn(BATCH, 1, size, size, generator=generator)


def _sounds(facts: Facts, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Sounds, series and states in the forms that models take."""
    mel = facts.size(
        "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "input_dim", default=80
    )
    hidden = facts.size("hidden_size", "d_model", default=32)
    frames = 2 * facts.size("max_source_positions", default=32)
    shapes = [(mel, frames), (64, mel), (mel, 64), (64, 2 * mel), (64, 4 * mel), (1, 64, mel)]
    for shape in shapes:
        yield "input_features", torch.randn(BATCH, *shape, generator=generator)
    for shape in ((2000,), (1, 2000), (1024, 128), (1, 3840), (32, mel)):
        yield "input_values", torch.randn(BATCH, *shape, generator=generator)
    ids = token_ids(facts, (BATCH, LENGTH), generator)
    yield "input_values", ids
    yield "inputs", ids
    channels = facts.size("num_input_channels", default=1)
    past = facts.size("context_length", default=64) + 7  # the longest lag of the default configs
    for shape in ((past,), (past - 7, channels), (past - 7,)):
        yield "past_values", torch.randn(BATCH, *shape, generator=generator)
    for name in ("inputs_embeds", "hidden_states", "query_embeds", "latents"):
        yield name, torch.randn(BATCH, LENGTH, hidden, generator=generator)
        yield name, torch.randn(BATCH, hidden, LENGTH, generator=generator)
    yield "audio_mel", torch.randn(BATCH, 64, mel, generator=generator)
    yield "audio_codes", torch.randint(0, 10, (BATCH, 4, LENGTH), generator=generator)


def _fill_required(
    inputs: Inputs, needed: set[str], facts: Facts, generator: torch.Generator
) -> Inputs:
    """Add required arguments that follow from the others by name."""
    rows = next((value.shape for value in inputs.values() if isinstance(value, Tensor)), (BATCH,))
    length = rows[1] if len(rows) > 1 else LENGTH
    grid = torch.tensor([[1, 4, 4]] * BATCH)
    known: Inputs = {
        "grid_thw": grid,
        "image_grid_thw": grid,
        "merge_sizes": torch.tensor([facts.size("spatial_merge_size", default=1)] * BATCH),
        "spatial_shapes": torch.tensor([[4, 4]] * BATCH),
        "pixel_attention_mask": torch.ones(BATCH, 16, dtype=torch.long),
        "pixel_position_ids": torch.cartesian_prod(torch.arange(4), torch.arange(4)).repeat(
            BATCH, 1, 1
        ),
        "input_features_mask": torch.ones(BATCH, max(rows[1:], default=64), dtype=torch.long),
        "audio_mel_mask": torch.zeros(BATCH, length, dtype=torch.bool),
        "past_time_features": torch.zeros(BATCH, length, 0),
        "past_observed_mask": torch.ones(BATCH, length),
        "task_inputs": token_ids(facts, (BATCH, facts.size("task_seq_len", default=8)), generator),
        "freq": torch.zeros(BATCH, 1, dtype=torch.long),
        "past_values_padding": torch.zeros(BATCH, length, dtype=torch.long),
        "prompt_pixel_values": inputs.get("pixel_values"),
        "prompt_masks": inputs.get("pixel_values"),
    }
    return {**inputs, **{name: known[name] for name in needed - inputs.keys() if name in known}}
