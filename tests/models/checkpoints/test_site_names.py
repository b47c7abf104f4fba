"""A converted checkpoint has the site names of the transformers model that it came from."""

import pytest
import torch
import transformers

import regard
from models.checkpoints.peers import PEERS, VIEWERS, peer
from regard.models import Transformer
from regard.tracing.sites import find_module

pytestmark = pytest.mark.usefixtures("unchecked")


def inputs_of(name, model):
    if name in VIEWERS:
        return {"pixel_values": torch.randn(1, 3, 15, 15)}
    inputs = {"input_ids": torch.randint(101, (1, 7))}
    if isinstance(model, Transformer) and model.reads_source and model.decoder is not None:
        inputs["decoder_input_ids"] = torch.randint(101, (1, 5))
    return inputs


def captured_sites(model, inputs):
    return [attention_map.site for attention_map in regard.capture(model, None, inputs)]


def converted(name, folder):
    """A model of transformers, and ours that was converted from its checkpoint."""
    theirs = peer(name)
    theirs.save_pretrained(folder)
    return theirs, Transformer.from_pretrained(folder)


@pytest.mark.parametrize("name", PEERS)
def test_the_sites_are_those_of_the_model_in_transformers(name, tmp_path):
    if name in VIEWERS and transformers.__version__.startswith("4."):
        pytest.skip("the sites have the names of transformers 5, which renamed the layers of ViT")
    theirs, ours = converted(name, tmp_path)
    inputs = inputs_of(name, ours)
    assert captured_sites(ours, inputs) == captured_sites(theirs, inputs)


@pytest.mark.parametrize("name", PEERS)
def test_the_sites_stay_when_the_model_is_saved_as_ours(name, tmp_path):
    _, ours = converted(name, tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    again = Transformer.from_pretrained(tmp_path / "ours")
    assert again.site_names == ours.site_names
    inputs = inputs_of(name, ours)
    assert captured_sites(again, inputs) == captured_sites(ours, inputs)


def test_the_sites_stay_when_the_model_is_quantised(tmp_path):
    _, ours = converted("llama", tmp_path)
    sites = ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert captured_sites(ours.to_int8(), inputs_of("llama", ours)) == sites
    light = Transformer.from_pretrained(tmp_path, precision="int8")
    assert captured_sites(light, inputs_of("llama", ours)) == sites


@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_traced_at_the_same_sites(beams, tmp_path):
    _, ours = converted("marian", tmp_path)
    plan = {"max_new_tokens": 3, "num_beams": beams}
    ids = {"input_ids": torch.randint(2, 101, (1, 7))}
    trace = regard.capture(ours, None, ids, generate=plan)
    crossing = [f"model.decoder.layers.{layer}.encoder_attn" for layer in range(3)]
    assert [attention_map.site for attention_map in trace.of("cross")] == crossing


def test_an_edit_finds_its_site_by_the_name_in_transformers(tmp_path):
    theirs, ours = converted("gpt2", tmp_path)
    inputs = {"input_ids": torch.randint(101, (1, 7))}
    edit = regard.tracing.knock_out("transformer.h.1.attn", heads=[2])
    results = []
    for model in (ours, theirs):
        with torch.no_grad(), regard.watch(model, edit=edit):
            result = model(**inputs)
        results.append(getattr(result, "logits", result))
    torch.testing.assert_close(results[0], results[1], atol=1e-4, rtol=1e-4)


def test_the_module_of_a_site_is_found_by_its_name(tmp_path):
    _, ours = converted("bert of classes", tmp_path)
    attention = ours.encoder.layers[1].attention
    assert find_module(ours, "bert.encoder.layer.1.attention.self") is attention
    wrapped = torch.nn.ModuleDict({"inner": ours})
    assert find_module(wrapped, "inner.bert.encoder.layer.1.attention.self") is attention


def test_a_model_that_was_not_converted_has_its_own_module_paths(tmp_path):
    model = Transformer(vocab=101, d_model=12, layers=2, heads=3, d_ff=23, kind="decoder").eval()
    assert model.site_names == {}
    inputs = {"input_ids": torch.randint(101, (1, 7))}
    sites = ["decoder.layers.0.attention", "decoder.layers.1.attention"]
    assert captured_sites(model, inputs) == sites
    model.save_pretrained(tmp_path)
    assert "site_names" not in (tmp_path / "config.json").read_text()
