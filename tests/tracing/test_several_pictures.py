"""Models of transformers whose examples have several pictures or tiles: one trace for each text."""

import pytest
import torch

import regard
from tracing.strangers import HEADS, WIDTH, hf, needs_registries

pytestmark = [pytest.mark.usefixtures("unchecked"), needs_registries]

PLACE = 97  # the id of the token that stands for a feature of a picture
BODY = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "intermediate_size": 32,
}
TEXT = BODY | {
    "num_key_value_heads": HEADS,
    "head_dim": WIDTH // HEADS,
    "vocab_size": 101,
    "pad_token_id": 3,
}
EYE = BODY | {"image_size": 16, "patch_size": 8}


def texts(*counts):
    """Texts with places for the features of their pictures, padded at the left."""
    rows = []
    for pictures in counts:
        places = [place for count in pictures for place in [PLACE] * count + [11]]
        rows.append([12, 13, *places])
    length = max(map(len, rows))
    ids = torch.tensor([[3] * (length - len(row)) + row for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 3).long()}


def tiles():
    """Two pictures of 5 and 3 tiles, one for each text."""
    config = hf.LlavaNextConfig(
        vision_config={"model_type": "clip_vision_model"} | EYE,
        text_config={"model_type": "llama"} | TEXT,
        image_token_index=PLACE,
        image_grid_pinpoints=[[16, 32], [32, 32]],
        vision_feature_layer=-1,
    )
    pixels = torch.randn(2, 5, 3, 16, 16)
    pixels[1, 3:] = 0
    inputs = texts([4 + 6 * 4 - 4], [4 + 2 * 5])
    inputs |= {"pixel_values": pixels, "image_sizes": torch.tensor([[32, 32], [16, 32]])}
    return hf.LlavaNextForConditionalGeneration(config), inputs, (slice(1), slice(1, 2))


def padded_pictures():
    """Three pictures and one, padded to three."""
    config = hf.SmolVLMConfig(
        vision_config=EYE,
        text_config={"model_type": "llama"} | TEXT,
        image_token_id=PLACE,
        scale_factor=1,
    )
    pixels = torch.randn(2, 3, 3, 16, 16)
    pixels[1, 1:] = 0
    real = torch.ones(2, 3, 16, 16, dtype=torch.bool)
    inputs = texts([4, 4, 4], [4]) | {"pixel_values": pixels, "pixel_attention_mask": real}
    return hf.SmolVLMForConditionalGeneration(config), inputs, (slice(1), slice(1, 2))


def resampled_pictures():
    """Three pictures and one, of which learned queries read four features each."""
    config = hf.Idefics2Config(
        vision_config=EYE,
        text_config={"model_type": "mistral"} | TEXT,
        perceiver_config={
            "hidden_size": WIDTH,
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": HEADS,
            "resampler_head_dim": WIDTH // HEADS,
            "num_key_value_heads": HEADS,
        },
        image_token_id=PLACE,
    )
    _, inputs, pixels = padded_pictures()
    return hf.Idefics2ForConditionalGeneration(config), inputs, pixels


def packed_row():
    """Pictures of 16, 24 and 32 patches in one row."""
    eye = {key: value for key, value in EYE.items() if key != "image_size"}
    config = hf.Mistral3Config(
        vision_config={"model_type": "pixtral", "image_size": 64, "head_dim": WIDTH // HEADS} | eye,
        text_config={"model_type": "mistral"} | TEXT,
        image_token_index=PLACE,
        spatial_merge_size=2,
    )
    sizes = torch.tensor([[32, 32], [48, 32], [32, 64]])
    inputs = texts([4, 6], [8]) | {"pixel_values": torch.randn(3, 3, 64, 64), "image_sizes": sizes}
    return hf.Mistral3ForConditionalGeneration(config), inputs, (slice(2), slice(2, 3))


def one_by_one():
    """Pictures of 16, 24 and 32 patches, each attended to by itself."""
    if not hasattr(hf, "Qwen2VLConfig"):
        pytest.skip("this transformers has no such model")
    rope = {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 1e4}
    eye = {"depth": 1, "embed_dim": 32, "hidden_size": WIDTH, "num_heads": 4, "patch_size": 4}
    config = hf.Qwen2VLConfig(
        text_config=TEXT | {"rope_parameters": rope}, vision_config=eye, image_token_id=PLACE
    )
    grid = torch.tensor([[1, 4, 4], [1, 6, 4], [1, 4, 8]])
    inputs = texts([4, 6], [8]) | {"pixel_values": torch.randn(72, 96), "image_grid_thw": grid}
    inputs["mm_token_type_ids"] = (inputs["input_ids"] == PLACE).int()
    return hf.Qwen2VLForConditionalGeneration(config), inputs, (slice(40), slice(40, 72))


def watch(model, inputs):
    with torch.no_grad(), regard.watch(model.eval()) as seen:
        model(**inputs)
    return seen


def generate(model, inputs, **options):
    options |= {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    with torch.no_grad(), regard.watch(model.eval()) as seen:
        model.generate(**inputs, **options)
    return seen


def single(inputs, pixels, example):
    """The inputs of one example."""
    alone = {name: tensor[example : example + 1] for name, tensor in inputs.items()}
    alone["pixel_values"] = inputs["pixel_values"][pixels[example]]
    for name in ("image_sizes", "image_grid_thw"):
        if name in inputs and len(inputs[name]) == 3:
            alone[name] = inputs[name][:2] if example == 0 else inputs[name][2:]
    return alone


def assert_same_maps(trace, expected):
    """The same maps; of texts, as far as the expected trace has read them."""
    assert [each.site for each in trace] == [each.site for each in expected]
    assert not trace.gaps
    for one, other in zip(trace, expected, strict=True):
        _, rows, columns = other.shape
        weights = one.weights()[:, :rows, :columns]
        assert one.shape == other.shape or "self_attn" in one.site
        torch.testing.assert_close(weights, other.weights(), atol=1e-5, rtol=1e-4)


MAKERS = [tiles, padded_pictures, resampled_pictures, packed_row, one_by_one]


@pytest.mark.parametrize("make", MAKERS)
def test_each_text_has_the_maps_that_it_has_alone(make):
    model, inputs, pixels = make()
    seen = watch(model, inputs)
    assert len(seen) == 2
    for example, trace in enumerate(seen):
        assert_same_maps(trace, watch(model, single(inputs, pixels, example))[0])


@pytest.mark.parametrize("make", MAKERS)
def test_each_text_has_its_own_pictures_when_the_model_generates(make):
    model, inputs, pixels = make()
    seen = generate(model, inputs)
    assert len(seen) == 2
    for example, trace in enumerate(seen):
        alone = generate(model, single(inputs, pixels, example))
        assert len(alone) == 1
        assert [each.shape for each in trace] == [each.shape for each in alone[0]]
        assert_same_maps(trace, alone[0])
        assert_same_maps(trace, watch(model, single(inputs, pixels, example))[0])


@pytest.mark.parametrize("make", MAKERS)
def test_all_beams_of_a_text_have_its_pictures(make):
    model, inputs, pixels = make()
    seen = generate(model, inputs, num_beams=3, num_return_sequences=3)
    assert len(seen) == 6
    for number, trace in enumerate(seen):
        assert_same_maps(trace, watch(model, single(inputs, pixels, number // 3))[0])


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("make", [padded_pictures, one_by_one])
def test_a_picture_that_two_texts_share_belongs_to_both(make, beams):
    model, inputs, pixels = make()
    alone = single(inputs, pixels, 0)
    twice = {name: torch.cat([tensor, tensor]) for name, tensor in alone.items()}
    seen = generate(model, twice, num_beams=beams, num_return_sequences=beams)
    assert len(seen) == 2 * beams
    expected = watch(model, alone)[0]
    for trace in seen:
        assert_same_maps(trace, expected)


def test_patches_of_several_pictures_in_one_list_are_a_trace_for_each_picture():
    model, inputs, _ = one_by_one()
    grids, looker = inputs["image_grid_thw"], model.model.visual
    seen = watch(looker, {"hidden_states": inputs["pixel_values"], "grid_thw": grids})
    patches = inputs["pixel_values"].split(grids.prod(1).tolist())
    assert len(seen) == 3
    for trace, own, grid in zip(seen, patches, grids, strict=True):
        alone = watch(looker, {"hidden_states": own, "grid_thw": grid[None]})
        assert_same_maps(trace, alone[0])
