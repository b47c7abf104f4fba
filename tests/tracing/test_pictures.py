"""Streams of models that look at pictures and sounds, or at several things side by side."""

import warnings

import pytest
import torch

import regard
from regard.storage import load_trace, save_trace
from storage.sameness import assert_same

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf

    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

BODY = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
PICTURE = BODY | {"image_size": 16, "patch_size": 4}


def clip():
    text = BODY | {"vocab_size": 101, "eos_token_id": 2}
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=PICTURE, projection_dim=8))


def captioner():
    reads = {"is_decoder": True, "add_cross_attention": True, "vocab_size": 101}
    return hf.VisionEncoderDecoderModel(
        encoder=hf.ViTModel(hf.ViTConfig(**PICTURE)),
        decoder=hf.BertLMHeadModel(hf.BertConfig(**BODY, **reads)),
    )


def watched(model, **feed):
    with torch.no_grad(), regard.watch(model.eval()) as seen:
        model(**feed)
    return seen


def lengths(trace):
    return {name: len(tokens) for name, tokens in trace.streams.items()}


def ids(batch, length):
    return torch.randint(3, 100, (batch, length))


def test_text_and_picture_side_by_side_have_names_of_their_own():
    seen = watched(clip(), input_ids=ids(2, 7), pixel_values=torch.randn(2, 3, 16, 16))
    assert lengths(seen[0]) == {"vision_model": 17, "text_model": 7}


def test_pictures_of_another_number_than_texts_are_not_spread_over_them():
    seen = watched(clip(), input_ids=ids(4, 7), pixel_values=torch.randn(2, 3, 16, 16))
    assert [len(each) for each in seen] == [4, 4, 2, 2]
    assert lengths(seen[3]) == {"text_model": 7}


def test_a_caption_looks_at_its_picture():
    seen = watched(captioner(), pixel_values=torch.randn(2, 3, 16, 16), decoder_input_ids=ids(2, 5))
    assert lengths(seen[1]) == {"source": 17, "target": 5}
    assert {each.kind for each in seen[1]} == {"encoder", "decoder", "cross"}


def test_a_transcript_looks_at_frames_of_sound():
    model = strangers.model("whisper")
    seen = watched(model, **strangers.inputs("whisper"))
    assert lengths(seen[0]) == {"source": 16, "target": strangers.TARGET}


def test_the_patches_of_a_picture_are_a_grid_that_is_stored_exactly(tmp_path):
    trace = watched(hf.ViTModel(hf.ViTConfig(**PICTURE)), pixel_values=torch.randn(1, 3, 16, 16))[0]
    tokens = trace.streams["tokens"]
    assert tokens.grid == (4, 4)
    assert tokens.texts[:2] == ("[0]", "0,0")
    assert tokens.special == (True, *[False] * 16)
    save_trace(trace, tmp_path / "picture.trace")
    assert_same(load_trace(tmp_path / "picture.trace"), trace)


def test_merged_patches_are_a_grid_of_half_the_sides():
    sizes = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "window_size": 4}
    config = hf.SwinConfig(**sizes, depths=[1, 1], num_heads=[2, 2])
    trace = watched(hf.SwinModel(config), pixel_values=torch.randn(1, 3, 16, 16))[0]
    grids = {name: tokens.grid for name, tokens in trace.streams.items()}
    assert [*grids.values()] == [None, (4, 4)]
