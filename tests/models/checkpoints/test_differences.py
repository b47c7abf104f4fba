"""A model stored as a difference to its base: loaded as a whole one, and refused if damaged."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from models.transformer.cases import encoder
from regard.errors import FileError
from regard.models import Tokenizer, from_pretrained
from regard.models.low_rank import LowRankLinear, add_low_rank, merge_low_rank

IDS = torch.tensor([[5, 7, 11, 13]])


@pytest.fixture
def folder(tmp_path):
    """A base and a difference to it, side by side; the model of the difference is beside them."""
    base = encoder(head="none")
    base.tokenizer = Tokenizer.train(["I love you."] * 9, "character")
    base.save_pretrained(tmp_path / "trunk")
    model = encoder(head="classes")
    model.load_state_dict(base.state_dict(), strict=False)
    add_low_rank(model, 3)
    for module in model.modules():
        if isinstance(module, LowRankLinear):
            nn.init.normal_(module.up, std=0.1)
    model.save_pretrained(tmp_path / "adapted", base="trunk")
    merge_low_rank(model)
    model.save_pretrained(tmp_path / "whole")
    return tmp_path / "adapted"


def edit_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_a_difference_is_loaded_as_the_merged_model(folder):
    model, whole = from_pretrained(folder), from_pretrained(folder.parent / "whole")
    torch.testing.assert_close(model(IDS), whole(IDS), rtol=1e-5, atol=1e-6)
    assert not any(isinstance(each, LowRankLinear) for each in model.modules())


def test_the_file_has_what_was_trained_and_the_tokenizer_is_that_of_the_base(folder):
    names = {each.name for each in folder.iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors"}
    stored = load_file(folder / "model.safetensors")
    assert not any(name.endswith("w_q.weight") or "embeddings" in name for name in stored)
    assert "encoder.layers.0.attention.w_q.weight:down" in stored
    assert from_pretrained(folder).tokenizer.encode("love")


def test_a_difference_may_be_stored_in_eight_bits(folder):
    model = from_pretrained(folder.parent / "trunk")
    add_low_rank(model, 256)  # factors that are large enough to be worth it
    model.save_pretrained(folder.parent / "light", base="trunk", stored="int8")
    stored = load_file(folder.parent / "light" / "model.safetensors")
    assert any(tensor.dtype == torch.int8 for tensor in stored.values())
    assert from_pretrained(folder.parent / "light")(IDS).isfinite().all()


def test_a_loaded_model_is_saved_whole(folder):
    model = from_pretrained(folder)
    model.save_pretrained(folder.parent / "again")
    assert "base" not in json.loads((folder.parent / "again" / "config.json").read_text())
    assert torch.equal(from_pretrained(folder.parent / "again")(IDS), model(IDS))


@pytest.mark.parametrize("base", ["../trunk", "/trunk", "a/b", "", "..", 5])
def test_a_base_is_a_plain_name(folder, base):
    edit_config(folder, base=base)
    with pytest.raises(FileError, match="expected as its base the name of a shipped model"):
        from_pretrained(folder)


def test_a_missing_base_is_named(folder):
    edit_config(folder, base="oak")
    with pytest.raises(FileError, match="stored as a difference to oak, which is neither shipped"):
        from_pretrained(folder)


def test_a_base_that_is_a_difference_is_refused(folder):
    edit_config(folder, base="adapted")
    with pytest.raises(FileError, match="names the base adapted, which is a difference itself"):
        from_pretrained(folder)


def test_a_factor_without_the_other_is_refused(folder):
    edit_weights(folder, lambda stored: stored.pop("encoder.layers.0.attention.w_q.weight:up"))
    with pytest.raises(FileError, match=r"w_q\.weight:down' without what belongs to it"):
        from_pretrained(folder)


def test_factors_of_another_base_are_refused(folder):
    name = "encoder.layers.0.attention.w_q.weight:up"
    edit_weights(folder, lambda stored: stored.update({name: stored[name][:-1].clone()}))
    with pytest.raises(FileError, match=r"the factors of .*w_q\.weight' in .* do not fit its base"):
        from_pretrained(folder)
