"""A config.json cannot make a model that is far larger than the weights beside it."""

import json
import threading

import pytest
from torch import nn

from models.checkpoints.peers import peer
from models.transformer.cases import small
from regard.errors import FileError, InputError
from regard.models import from_pretrained
from regard.models.checkpoints.build_limits import limit_parameters
from regard.models.images import Captioner, Recogniser
from regard.models.recurrent import Recurrent

OWN = {
    "transformer": lambda: small("vaswani"),
    "recurrent": lambda: Recurrent(vocab=11, d_embed=6, hidden=8),
    "captioner": lambda: Captioner(vocab=11, d_embed=6, hidden=8, widths=(3, 5)),
    "recogniser": lambda: Recogniser(widths=(3, 5)),
}


def change_config(folder, **settings):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("transformer", {"layers": 10**6}),
        ("transformer", {"decoder_layers": 10**6}),
        ("recurrent", {"layers": 10**6}),
        ("recurrent", {"encoder_layers": 10**6}),
        ("captioner", {"layers": 10**6}),
        ("captioner", {"widths": [3] * 5000}),
        ("recogniser", {"widths": [3] * 5000}),
    ],
)
def test_more_layers_than_there_are_tensors_are_not_built(tmp_path, name, setting):
    OWN[name]().save_pretrained(tmp_path)
    change_config(tmp_path, **setting)
    with pytest.raises(FileError, match=r"describes a (model|tensor) of .*; are they of one"):
        from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("transformer", {"vocab": 2**62}),
        ("transformer", {"d_model": 2**40, "heads": 1, "max_positions": 1, "positions": "none"}),
        ("transformer", {"d_ff": 2**40}),
        ("recurrent", {"hidden": 2**40}),
        ("captioner", {"d_embed": 2**50}),
        ("recogniser", {"classes": 2**62}),
    ],
)
def test_a_tensor_larger_than_the_files_is_not_built(tmp_path, name, setting):
    OWN[name]().save_pretrained(tmp_path)
    change_config(tmp_path, **setting)
    with pytest.raises(FileError, match=r"describes a tensor of .* numbers, far more than"):
        from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("family", "key"),
    [
        ("marian", "encoder_layers"),
        ("bert", "num_hidden_layers"),
        ("gpt2", "n_layer"),
        ("vit", "num_hidden_layers"),
    ],
)
def test_a_converted_checkpoint_is_not_built_larger_than_its_file(tmp_path, family, key):
    peer(family).save_pretrained(tmp_path)
    change_config(tmp_path, **{key: 10**6})
    with pytest.raises(FileError, match="describes a model of more than"):
        from_pretrained(tmp_path)


def test_a_table_of_positions_that_no_memory_holds_is_refused(tmp_path):
    small("vaswani").save_pretrained(tmp_path)
    change_config(tmp_path, max_positions=2**40)
    with pytest.raises(InputError, match=r"a table of max_positions x d_model numbers, got"):
        from_pretrained(tmp_path)


def test_settings_that_torch_refuses_are_named_with_their_file(tmp_path):
    Recogniser(widths=(3, 5)).save_pretrained(tmp_path)
    change_config(tmp_path, patch=2**62, features="patches", widths=[1])
    with pytest.raises(FileError, match=r"config.json"):
        from_pretrained(tmp_path)


def test_a_model_of_another_thread_is_not_counted(tmp_path):
    models = []
    with limit_parameters(tmp_path, 0):
        build = threading.Thread(target=lambda: models.append(nn.ParameterList([1.0] * 5000)))
        build.start()
        build.join()
    assert len(models[0]) == 5000
