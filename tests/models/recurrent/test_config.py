import pytest

from models.recurrent.variants import SIZES
from regard.errors import InputError, ShapeError, UnknownNameError
from regard.models.recurrent import Recurrent, RecurrentConfig


def test_a_config_goes_to_json_and_back():
    config = RecurrentConfig(vocab=53, attention="general + local-p", radius=3)
    assert RecurrentConfig.from_json(config.to_json()) == config


def test_the_presets_are_those_of_the_papers():
    bahdanau, luong = (RecurrentConfig.preset(name) for name in ("bahdanau", "luong"))
    assert (bahdanau.hidden, bahdanau.d_embed, bahdanau.width, bahdanau.style) == (
        1000, 620, 500, "bahdanau",
    )  # fmt: skip
    assert (luong.layers, luong.cell, luong.input_feeding) == (4, "lstm", True)
    with pytest.raises(UnknownNameError, match="did you mean 'luong'"):
        RecurrentConfig.preset("loung")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hiden": 7}, "did you mean 'hidden'"),
        ({"hidden": 7}, "give encoder_hidden"),
        ({"input_feeding": True}, "is for style='luong'"),
        ({"tie_embeddings": True, "readout": 7}, "width d_embed=256, got readout=7"),
        ({"layers": 0}, "at least 1"),
        ({"dropout": 1.0}, "from 0 to below 1"),
        ({"cell": "rnn"}, "cell of RecurrentConfig"),
    ],
)
def test_settings_that_cannot_be_are_refused(unchecked, settings, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        RecurrentConfig(**settings)


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        ("adittive", "did you mean 'additive'"),
        ("dot", "queries and keys of one width"),
        ("dot + general", "names of different families"),
        ("multi-head + hard", "heads stand alone"),
        ("local-p + hard", "cannot be joined with hard"),
        ("rotary + hard", "stands alone"),
    ],
)
def test_attention_that_cannot_be_is_refused(attention, message):
    settings = SIZES | {"hidden": 16, "encoder_hidden": 5, "attention": attention, "heads": 2}
    with pytest.raises((InputError, ShapeError, UnknownNameError), match=message):
        Recurrent(**settings)
