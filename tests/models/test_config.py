import json
from dataclasses import FrozenInstanceError

import pytest

from regard.errors import InputError, UnknownNameError
from regard.models import TransformerConfig

pytestmark = pytest.mark.usefixtures("unchecked")


def test_a_config_becomes_json_and_comes_back():
    config = TransformerConfig(kind="decoder", vocab=101, heads=4, positions="rotary", bias=False)
    assert TransformerConfig.from_json(json.dumps(config.to_json())) == config


def test_a_config_cannot_be_changed_but_gives_a_changed_one():
    config = TransformerConfig()
    with pytest.raises(FrozenInstanceError):
        config.heads = 3
    assert config.replace(heads=4).heads == 4
    assert config.heads == 8


@pytest.mark.parametrize(
    "make",
    [
        lambda: TransformerConfig(dmodel=512),
        lambda: TransformerConfig.from_json({"dmodel": 512}),
        lambda: TransformerConfig().replace(dmodel=512),
        lambda: TransformerConfig.preset("gpt2", dmodel=512),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_named(make):
    with pytest.raises(
        UnknownNameError, match="no setting of TransformerConfig 'dmodel'; did you mean 'd_model'"
    ):
        make()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": "512"}, "expected d_model to be a whole number, got '512'"),
        ({"heads": True}, "expected heads to be a whole number, got True"),
        ({"tie_embeddings": 1}, "expected tie_embeddings to be true or false, got 1"),
        ({"norm": "batch"}, "no norm of TransformerConfig 'batch'; Known: layer, rms"),
        ({"norm": 3}, "expected norm to be one of 'layer', 'rms', got 3"),
        ({"key_heads": "two"}, "expected key_heads to be a whole number or null, got 'two'"),
        ({"layers": -1}, "expected layers of at least 0, got -1"),
        ({"vocab": 0}, "expected vocab of at least 1, got 0"),
        ({"dropout": 1.0}, "expected dropout from 0 to below 1, got 1.0"),
        ({"d_model": 7, "heads": 2}, "multiple of heads, got d_model=7, heads=2"),
        ({"decoder_heads": 5}, "multiple of decoder_heads, got d_model=512, decoder_heads=5"),
        ({"key_heads": 3}, "multiple of key_heads, got heads=8, key_heads=3"),
        ({"d_model": 15, "heads": 5, "positions": "rotary"}, "should be even, got 3"),
        ({"attention": "scaled"}, "no mechanism 'scaled'; did you mean 'scaled-dot'"),
        ({"kind": "decoder", "target_vocab": 7}, "target_vocab is for an encoder-decoder"),
        ({"head": "spans"}, "encoder-decoder has head 'language' or 'none', got 'spans'"),
        ({"kind": "vision", "head": "language"}, "'classes' or 'none', got 'language'"),
        ({"kind": "vision", "patch": 15}, "image_size should be a multiple of patch, got 224"),
    ],
)
def test_an_impossible_value_gets_its_sentence(settings, message):
    with pytest.raises(InputError, match=message):
        TransformerConfig(**settings)


@pytest.mark.parametrize("data", ["{", "[1]", [1]])
def test_what_is_no_json_object_is_refused(data):
    with pytest.raises(InputError, match="TransformerConfig expected"):
        TransformerConfig.from_json(data)


def test_an_unknown_preset_names_those_that_there_are():
    with pytest.raises(
        UnknownNameError, match="no preset of TransformerConfig 'gpt3'; did you mean 'gpt2'"
    ):
        TransformerConfig.preset("gpt3")
