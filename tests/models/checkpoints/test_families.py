"""Checkpoints of transformers become our Transformer and give the same logits."""

import json

import pytest
import torch
import transformers as hf
from safetensors.torch import save_file

from models.checkpoints.peers import LLAMA, PEERS, READERS, VIEWERS, WRITERS, peer
from regard.errors import FileError, RegardError, UnknownNameError
from regard.models import Transformer
from regard.models.checkpoints.families import FAMILIES
from regard.models.checkpoints.files import CheckpointTensors

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
ROWS, LENGTH = 3, 7


def marks_of(rows=ROWS, length=LENGTH):
    return (torch.arange(length) < torch.tensor([7, 5, 3])[:rows, None]).long()


def result(output):
    """What a peer answers, by the name that it has there."""
    names = ("logits", "prediction_logits", "last_hidden_state")
    if "start_logits" in output:
        return torch.stack([output.start_logits, output.end_logits], dim=-1)
    return next(output[name] for name in names if name in output)


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_gives_the_logits_of_transformers(name, tmp_path):
    theirs = peer(name)
    theirs.save_pretrained(tmp_path)
    ours = Transformer.from_pretrained(tmp_path)
    given = {"input_ids": torch.randint(101, (ROWS, LENGTH)), "attention_mask": marks_of()}
    if ours.reads_source:
        given["decoder_input_ids"] = torch.randint(101, (ROWS, 5))
    with torch.no_grad():
        expected = theirs(**given).logits
    real = ... if ours.reads_source else marks_of().bool()
    torch.testing.assert_close(ours(**given)[real], expected[real], **CLOSE)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_the_numbers_of_transformers(name, tmp_path):
    theirs = peer(name)
    theirs.save_pretrained(tmp_path)
    given = {"input_ids": torch.randint(101, (ROWS, LENGTH)), "attention_mask": marks_of()}
    given["token_type_ids"] = torch.randint(2, (ROWS, LENGTH))
    ours = Transformer.from_pretrained(tmp_path)
    with torch.no_grad():
        output = theirs(**given)
        torch.testing.assert_close(ours(**given), result(output), **CLOSE)
    if output.get("pooler_output") is not None:
        torch.testing.assert_close(ours.pooler(ours(**given)), output.pooler_output, **CLOSE)


@pytest.mark.parametrize("name", VIEWERS)
def test_a_viewer_gives_the_numbers_of_transformers(name, tmp_path):
    theirs = peer(name)
    theirs.save_pretrained(tmp_path)
    pixels = torch.randn(ROWS, 3, 15, 15)
    with torch.no_grad():
        expected = result(theirs(pixel_values=pixels))
        actual = Transformer.from_pretrained(tmp_path)(pixel_values=pixels)
    torch.testing.assert_close(actual, expected, **CLOSE)


@pytest.mark.parametrize("name", ["marian", "gpt2", "llama tied"])
def test_step_by_step_gives_the_logits_of_transformers(name, tmp_path):
    theirs = peer(name)
    theirs.save_pretrained(tmp_path)
    ours = Transformer.from_pretrained(tmp_path)
    ids, target = torch.randint(101, (ROWS, LENGTH)), torch.randint(101, (ROWS, 5))
    with torch.no_grad():
        given = (ids, None, target) if ours.reads_source else (target,)
        expected = theirs(*given).logits
    state = ours.begin(ids if ours.reads_source else target)
    for place in range(5):
        logits, state = ours.step(state, target[:, place : place + 1])
        torch.testing.assert_close(logits, expected[:, place], **CLOSE)


@pytest.mark.parametrize("name", PEERS)
def test_what_was_loaded_is_saved_as_ours_and_comes_back(name, tmp_path):
    peer(name).save_pretrained(tmp_path / "theirs")
    ours = Transformer.from_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    again = Transformer.from_pretrained(tmp_path / "ours")
    assert again.config == ours.config
    assert again.generation == ours.generation
    assert all(
        torch.equal(a, b) for a, b in zip(again.parameters(), ours.parameters(), strict=True)
    )


@pytest.mark.parametrize(("dtype", "close"), [(torch.float16, 1e-2), (torch.bfloat16, 5e-2)])
def test_files_of_half_precision_are_read_as_float32(dtype, close, tmp_path):
    theirs = peer("gpt2")
    theirs.to(dtype).save_pretrained(tmp_path)
    ours, ids = Transformer.from_pretrained(tmp_path), torch.randint(101, (ROWS, LENGTH))
    assert {each.dtype for each in ours.parameters()} == {torch.float32}
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), theirs.float()(ids).logits, atol=close, rtol=close)
    half = Transformer.from_pretrained(tmp_path, dtype=dtype)
    assert {each.dtype for each in half.parameters()} == {dtype}


def test_a_checkpoint_in_several_files_is_one(tmp_path):
    theirs, ids = peer("bart"), torch.randint(101, (ROWS, LENGTH))
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with torch.no_grad():
        expected = theirs(input_ids=ids, decoder_input_ids=ids).logits
    torch.testing.assert_close(Transformer.from_pretrained(tmp_path)(ids, ids), expected, **CLOSE)
    next(iter(tmp_path.glob("*.safetensors"))).unlink()
    with pytest.raises(FileError, match=r"names model-0000.*, which is not there; download"):
        Transformer.from_pretrained(tmp_path)


def test_a_pickle_is_read_for_its_tensors_alone(tmp_path):
    theirs, ids = peer("gpt2"), torch.randint(101, (ROWS, LENGTH))
    theirs.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    names = {k.removeprefix("transformer."): each for k, each in theirs.state_dict().items()}
    torch.save(names | {"h.0.attn.bias": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with torch.no_grad():
        expected = theirs(ids).logits
    torch.testing.assert_close(Transformer.from_pretrained(tmp_path)(ids), expected, **CLOSE)


def test_the_old_names_of_bert_are_known(tmp_path):
    theirs, ids = peer("bert"), torch.randint(101, (ROWS, LENGTH))
    theirs.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    names = {f"bert.{name}": each for name, each in theirs.state_dict().items()}
    names = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): v
        for k, v in names.items()
    }
    torch.save(names, tmp_path / "pytorch_model.bin")
    with torch.no_grad():
        expected = theirs(ids).last_hidden_state
    torch.testing.assert_close(Transformer.from_pretrained(tmp_path)(ids), expected, **CLOSE)


def test_a_model_without_its_head_gives_hidden_states(tmp_path):
    theirs, ids = peer("marian"), torch.randint(101, (ROWS, LENGTH))
    theirs.model.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = theirs.model(input_ids=ids, decoder_input_ids=ids).last_hidden_state
    torch.testing.assert_close(Transformer.from_pretrained(tmp_path)(ids, ids), expected, **CLOSE)


def changed(folder, **settings):
    file = folder / "config.json"
    config = json.loads(file.read_text()) | settings
    file.write_text(json.dumps({k: v for k, v in config.items() if v != "gone"}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rope_parameters": {"rope_type": "llama3"}}, "stretches .*'llama3'.* not supported"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": None}, "'linear'"),
        ({"head_dim": 7}, "head_dim = 7, which is not supported; expected 4"),
        ({"hidden_size": "gone"}, "config.json lacks 'hidden_size'"),
    ],
)
def test_a_config_that_we_cannot_follow_gets_its_sentence(settings, message, tmp_path):
    peer("llama").save_pretrained(tmp_path)
    changed(tmp_path, **settings)
    with pytest.raises(FileError, match=message):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "t5"}, "no architecture .*'t5'; .*Known: bart, bert, gpt2, llama, marian"),
        ({"model_type": "gone"}, "no architecture .*''; Known: bart"),
        ({"architectures": ["LlamaForTokenClassification"]}, "Known: LlamaForCausalLM, LlamaModel"),
        ({"hidden_act": "mish"}, r"activation \(hidden_act of config.json\) 'mish'"),
    ],
)
def test_an_unknown_architecture_is_told_which_are_known(settings, message, tmp_path):
    peer("llama").save_pretrained(tmp_path)
    changed(tmp_path, **settings)
    with pytest.raises(UnknownNameError, match=message):
        Transformer.from_pretrained(tmp_path)


def test_a_square_may_be_written_twice(tmp_path):
    peer("vit").save_pretrained(tmp_path)
    changed(tmp_path, image_size=[15, 15])
    assert Transformer.from_pretrained(tmp_path).config.image_size == 15
    changed(tmp_path, image_size=[15, 20])
    with pytest.raises(FileError, match=r"image_size = \[15, 20\], which is not supported"):
        Transformer.from_pretrained(tmp_path)


def test_the_base_of_the_angles_may_be_where_it_was_before(tmp_path):
    hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA)).save_pretrained(tmp_path)
    changed(tmp_path, rope_parameters="gone", rope_theta=777.0)
    assert Transformer.from_pretrained(tmp_path).config.rotary_base == 777.0


@pytest.mark.parametrize("value", ["x", 0.5, -3, 2**64, [], {}, True, 0])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_size_of_another_type_is_one_sentence(tmp_path, family, value):
    keys = [
        "vocab_size", "d_model", "hidden_size", "n_embd", "num_attention_heads", "n_head",
        "encoder_layers", "n_layer", "num_hidden_layers", "rope_scaling", "image_size",
    ]  # fmt: skip
    save_file({"x": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(RegardError):
        FAMILIES[family].config(tmp_path, dict.fromkeys(keys, value), CheckpointTensors(tmp_path))
