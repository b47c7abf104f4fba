"""Inputs of a model, made from the signature of its `forward`: what to try, best first.

`candidate_inputs(model)` gives dictionaries of tensors. Text comes first, then pictures and sounds
in the forms that models take, alone and beside text. Arguments that `forward` requires and that
follow from others (masks, grids of patches) are filled in by name. `build.py` takes the first with
which the model runs.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bench.architectures.shrink import VOCABULARY, walk_configs

__all__ = ["BATCH", "candidate_inputs", "fit_inputs", "token_ids"]

BATCH, LENGTH, TARGET = 2, 11, 5
_MOST_FEATURES = 2000  # of pictures or sounds in the texts of a call
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
                value = vars(config).get(name)  # some raise errors of their own for getattr
                if isinstance(value, list | tuple) and value:
                    value = value[0]
                if isinstance(value, dict):
                    value = next(iter(value.values()), None)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return default

    def pair(self, name: str) -> tuple[int, int] | None:
        """Two sizes that differ, such as the height and the width of pictures."""
        for config in self.configs:
            value = vars(config).get(name)
            if isinstance(value, list | tuple) and len(value) == 2 and value[0] != value[1]:
                return int(value[0]), int(value[1])
        return None


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
    seen = set()
    for inputs in _combine(text, target, forms, facts):
        for names in (needed, set(parameters)):  # also arguments with a default
            filled = _fill_required(inputs, names, facts, generator)
            shapes = str({name: getattr(value, "shape", ()) for name, value in filled.items()})
            marked = has_placeholders(filled, facts)
            if (shapes, marked) not in seen:
                seen.add((shapes, marked))
                yield filled


def _combine(
    text: Inputs, target: Inputs, forms: list[tuple[str, Tensor]], facts: Facts
) -> Iterator[Inputs]:
    """Text with pictures or sounds in it, two towers, text alone, and pictures and sounds alone."""
    if text:
        for name, value in forms:
            marked = _add_placeholders(text, name, facts)
            if marked:
                yield {**marked, **target, name: value}
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


_PLACEHOLDERS = {
    "pixel_values": ("image_token_id", "image_token_index", "media_placeholder_token_id"),
    "pixel_values_videos": ("video_token_id", "video_token_index"),
    "input_features": ("audio_token_id", "audio_token_index"),
    "input_values": ("audio_token_id", "audio_token_index"),
}


def _placeholder(name: str, facts: Facts) -> int | None:
    """The id of the token that stands for a feature of a picture or a sound."""
    number = facts.size(*_PLACEHOLDERS.get(name, ()), default=-1)
    return number if 0 <= number < VOCABULARY else None


def has_placeholders(inputs: Inputs, facts: Facts) -> bool:
    """True if the text of inputs has places for features of pictures or sounds."""
    ids = inputs.get("input_ids")
    tokens = [_placeholder(name, facts) for name in inputs]
    return ids is not None and any(t is not None and bool((ids == t).any()) for t in tokens)


def _add_placeholders(text: Inputs, name: str, facts: Facts, counts: Any = (1, 1)) -> Inputs:
    """The text with places for features, so many in each example; empty if there is no such token.

    Places are in the middle of a text, and shorter texts have more ordinary tokens.
    """
    token = _placeholder(name, facts)
    if token is None or "input_ids" not in text:
        return {}
    generator = torch.Generator().manual_seed(2)
    length = max(counts) + LENGTH
    ids = token_ids(facts, (BATCH, length), generator)
    for example, count in enumerate(counts):
        ids[example, 3 : 3 + count] = token
    marked = {**text, "input_ids": ids}
    if "attention_mask" in text:
        marked["attention_mask"] = torch.ones_like(ids)
    kinds = torch.zeros_like(ids)
    kinds[ids == token] = 1
    return {**marked, **{key: kinds for key in ("mm_token_type_ids",) if key in text}}


def fit_inputs(model: nn.Module, inputs: Inputs, message: str) -> Inputs | None:
    """Inputs that fit what an error says: the number of features, or the width of patches."""
    facts = Facts(getattr(model, "config", None))
    match = re.search(r"features:?\D{0,20}(\d+)", message)
    name = next((n for n in _PLACEHOLDERS if n in inputs), None)
    if match and name and has_placeholders(inputs, facts):
        features = int(match[1])
        places = int((inputs["input_ids"] == _placeholder(name, facts)).sum())
        if places == features:  # what the message counts are the numbers of all features
            features //= facts.size("hidden_size", "d_model", "n_embd", default=1)
        if BATCH <= features < _MOST_FEATURES or places == 2:
            counts = (features - features // BATCH, features // BATCH)
            return {**inputs, **_add_placeholders(inputs, name, facts, counts)}
    match = re.search(r"\((\d+)x(\d+) and (\d+)x(\d+)\)", message)
    return _fit_width(inputs, int(match[2]), int(match[3])) if match else None


def _fit_width(inputs: Inputs, width: int, expected: int) -> Inputs | None:
    """Inputs with patches of the expected width in place of another; None if there are none."""
    for name, value in inputs.items():
        for extra in (0, 2):  # flattened patches begin with their row and column
            floating = isinstance(value, Tensor) and value.is_floating_point()
            if floating and value.shape[-1] == width + extra and width != expected:
                shape = (*value.shape[:-1], expected + extra)
                generator = torch.Generator().manual_seed(0)
                return {**inputs, name: torch.rand(shape, generator=generator)}
    return None


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
    for name in ("mm_token_type_ids",):
        if name in parameters:
            inputs[name] = torch.zeros(shape, dtype=torch.long)
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
    sides = facts.pair("image_size")
    if sides:
        yield "pixel_values", torch.randn(BATCH, channels, *sides, generator=generator)
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
    longest = facts.size("max_length", default=128)
    for shape in ((2000,), (1, 2000), (longest, mel), (1024, 128), (1, 3840), (3840,), (32, mel)):
        yield "input_values", torch.randn(BATCH, *shape, generator=generator)
    yield "inputs", torch.randn(BATCH, LENGTH, hidden, generator=generator)
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


def _count_patches(facts: Facts) -> int:
    """How many tokens a picture, or the frames of a film, become."""
    side = facts.size("image_size", default=32) // facts.size("patch_size", default=8)
    frames = facts.size("num_frames", default=1) // facts.size("tubelet_size", default=1)
    return side**2 * max(1, frames)


def _fill_required(
    inputs: Inputs, needed: set[str], facts: Facts, generator: torch.Generator
) -> Inputs:
    """Add required arguments that follow from the others by name."""
    rows = next((value.shape for value in inputs.values() if isinstance(value, Tensor)), (BATCH,))
    length = rows[1] if len(rows) > 1 else LENGTH
    grid = torch.tensor([[1, 4, 4]] * BATCH)
    width = facts.size("encoder_hidden_size", "hidden_size", default=64)
    places = (BATCH, 7)
    known: Inputs = {
        "grid_thw": grid,
        "image_grid_thw": grid,
        "encoder_hidden_states": torch.randn(*places, width, generator=generator),
        "states": torch.randn(*places, facts.size("state_dim", default=17), generator=generator),
        "actions": torch.randn(*places, facts.size("act_dim", default=4), generator=generator),
        "returns_to_go": torch.randn(*places, 1, generator=generator),
        "timesteps": torch.arange(7).expand(places),
        "image_sizes": torch.tensor([[32, 32]] * BATCH),
        "target_sizes": torch.tensor([[4, 4]] * BATCH),
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
        "bool_masked_pos": torch.arange(_count_patches(facts)).expand(BATCH, -1) % 2 == 0,
        "freq": torch.zeros(BATCH, 1, dtype=torch.long),
        "past_values_padding": torch.zeros(BATCH, length, dtype=torch.long),
        "prompt_pixel_values": inputs.get("pixel_values"),
        "prompt_masks": inputs.get("pixel_values"),
    }
    return {**inputs, **{name: known[name] for name in needed - inputs.keys() if name in known}}
