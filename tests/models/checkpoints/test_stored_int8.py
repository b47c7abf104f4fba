"""Matrices stored in 8 bits come back within half a step, for every class of models."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import FileError
from regard.loading import describe_model
from regard.models import Recurrent, RecurrentClassifier, Transformer, from_pretrained
from regard.models.checkpoints.stored_int8 import SCALE_SUFFIX, store_as_int8

MODELS = {
    "embedding and GRU": lambda: RecurrentClassifier(vocab=307, d_embed=64, hidden=128, labels=3),
    "LSTM": lambda: Recurrent(vocab=307, d_embed=32, hidden=64, cell="lstm"),
    "tied embedding": lambda: Transformer(
        kind="decoder", vocab=307, d_model=64, layers=1, heads=2, d_ff=128
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_loaded_within_half_a_step_of_each_row(tmp_path, name):
    torch.manual_seed(0)
    model = MODELS[name]()
    model.save_pretrained(tmp_path, stored="int8")
    before, after = model.state_dict(), from_pretrained(tmp_path).state_dict()
    for key, tensor in before.items():
        step = tensor.abs().flatten(1).amax(1) / 127 if tensor.dim() > 1 else torch.zeros(())
        error = (after[key] - tensor).abs()
        error = error.flatten(1).amax(1) if tensor.dim() > 1 else error
        assert bool((error <= 0.501 * step + 1e-12).all()), key


@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_less_than_a_third_as_large(tmp_path, name):
    model = MODELS[name]()
    for form in ("float", "int8"):
        model.save_pretrained(tmp_path / form, stored=form)
    whole, small = (tmp_path / form / "model.safetensors" for form in ("float", "int8"))
    assert small.stat().st_size < whole.stat().st_size / 3
    counts = [describe_model(file.parent).parameters for file in (whole, small)]
    assert counts[0] == counts[1]


def test_rows_of_zeros_and_small_tensors_stay_as_they_are():
    matrix = torch.randn(128, 64)
    matrix[0] = 0
    stored = store_as_int8(
        {"matrix": matrix, "bias": torch.ones(5000), "tall": torch.ones(5000, 2)}
    )
    assert not stored["matrix"][0].any()
    assert stored["bias"].dtype == stored["tall"].dtype == torch.float32
    assert {*stored} == {"matrix", f"matrix{SCALE_SUFFIX}", "bias", "tall"}


@pytest.mark.parametrize("wrong", [torch.ones(5), torch.ones(307, 1)])
def test_scales_that_do_not_fit_are_refused(tmp_path, wrong):
    MODELS["embedding and GRU"]().save_pretrained(tmp_path, stored="int8")
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(
        tensors | {f"words.table.weight{SCALE_SUFFIX}": wrong}, tmp_path / "model.safetensors"
    )
    with pytest.raises(FileError, match="should be a matrix of int8 with a scale for each row"):
        from_pretrained(tmp_path)
