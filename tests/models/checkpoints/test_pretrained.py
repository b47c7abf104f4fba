import json

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from models.checkpoints.peers import peer
from models.transformer.cases import WRITERS, small
from regard.errors import FileError, InputError, UnknownNameError
from regard.files import replacement
from regard.models import GenerationSettings, Tokenizer, Transformer, from_pretrained
from regard.models.checkpoints import Pretrained, pretrained, register


@pytest.fixture
def folder(tmp_path):
    small("vaswani").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def weights_of(folder, change):
    """The file of weights after a change of its tensors."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("name", WRITERS)
def test_a_model_comes_back_as_it_was_saved(name, tmp_path):
    model = small(name)
    model.save_pretrained(tmp_path)
    again = from_pretrained(tmp_path)
    assert type(again) is Transformer
    assert not again.training
    ids = torch.randint(101, (3, 7))
    given = (ids, ids) if model.reads_source else (ids,)
    assert torch.equal(again(*given), model(*given))


def test_a_saved_model_is_its_files(folder):
    names = {each.name for each in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "generation_config.json"}
    assert json.loads((folder / "config.json").read_text())["class"] == "Transformer"


def test_packing_does_not_show_in_the_file(tmp_path):
    model = small("vaswani")
    model.begin(torch.ones(1, 3).long())
    model.save_pretrained(tmp_path)
    again = from_pretrained(tmp_path)
    assert all(
        torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True)
    )


def test_tokenizer_and_settings_travel_along(tmp_path):
    model = small("gpt2")
    model.tokenizer = Tokenizer.train(["I love you.", "我爱你。"] * 9, "character")
    model.generation = GenerationSettings(num_beams=5, eos_token_id=(2,))
    model.save_pretrained(tmp_path)
    again = Transformer.from_pretrained(tmp_path)
    assert again.generation == model.generation
    assert again.tokenizer.encode("我爱你") == model.tokenizer.encode("我爱你")


def test_ids_that_the_settings_do_not_tell_are_in_the_config(tmp_path):
    peer("marian").save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    settings = from_pretrained(tmp_path).generation
    assert (settings.decoder_start_token_id, settings.pad_token_id) == (1, 1)


def test_the_five_lines_that_everyone_expects_work(tmp_path):
    tokenizer = Tokenizer.train(["Once upon a time there was a king."] * 9, "character")
    model = small("llama", vocab=len(tokenizer))
    model.tokenizer = tokenizer
    model.save_pretrained(tmp_path)
    model = Transformer.from_pretrained(tmp_path)
    ids = model.tokenizer.encode("Once upon a time", return_tensors="pt")
    out = model.generate(ids, max_length=23, num_return_sequences=1)
    assert len(out[0]) == 23
    assert model.tokenizer.decode(out[0]).startswith("Once upon a time")


def test_buffers_that_last_are_saved_too(tmp_path):
    @register
    class Counting(Pretrained):
        config_class = type(WRITERS["gpt2"])

        def __init__(self, config):
            super().__init__()
            self.config, self.norm = config, torch.nn.BatchNorm1d(3)

    model = Counting(WRITERS["gpt2"]).train()
    model.norm(torch.randn(5, 3) + 7)
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path).norm.running_mean, model.norm.running_mean)


def test_a_save_that_fails_leaves_what_was_there(folder, monkeypatch):
    before = {each.name: each.read_bytes() for each in folder.iterdir()}

    def broken(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr("regard.models.checkpoints.pretrained.save_file", broken)
    with pytest.raises(FileError, match=r"cannot write the checkpoint to .*: no space left"):
        small("gpt2").save_pretrained(folder)
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    with pytest.raises(FileError, match="no space left"):
        small("gpt2").save_pretrained(folder.parent / "other")
    assert [each.name for each in folder.parent.iterdir()] == ["model"]


def test_a_second_save_replaces_the_first_and_nothing_else(folder):
    (folder / "notes.txt").write_text("mine")
    (folder / "tokenizer.json").write_text("of another model")
    model = small("gpt2")
    model.save_pretrained(folder)
    assert from_pretrained(folder).config == model.config
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "tokenizer.json").exists()


def test_a_folder_cannot_be_where_a_file_is(tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(FileError, match="is a file; expected a folder to write"):
        small("gpt2").save_pretrained(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("decoder.layers.1.cross.w_k.bias"), r"lacks 'decoder.layers.1.cross.w_k"),
        (lambda t: t.update(odd=torch.ones(3)), "has besides 'odd', unlike the model of its"),
        (
            lambda t: t.update({"encoder.layers.0.feed_forward.up.weight": torch.ones(5, 3)}),
            r"'encoder.layers.0.feed_forward.up.weight' in .* should have shape \(29, 24\) .*"
            r"got \(5, 3\)",
        ),
        (lambda t: t.clear() or t.update(x=torch.ones(1)), "lacks 'encoder.* and [0-9]+ more"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(folder, change, message):
    weights_of(folder, change)
    with pytest.raises(FileError, match=message):
        from_pretrained(folder)


def test_a_tensor_missing_from_a_foreign_file_has_its_foreign_name(tmp_path):
    peer("gpt2").save_pretrained(tmp_path)
    weights_of(tmp_path, lambda tensors: tensors.pop("transformer.h.1.attn.c_attn.bias"))
    with pytest.raises(FileError, match=r"lacks 'h.1.attn.c_attn.bias'"):
        from_pretrained(tmp_path)


def test_tied_tensors_that_differ_are_named(tmp_path):
    peer("gpt2").save_pretrained(tmp_path)
    weights_of(tmp_path, lambda tensors: tensors.update({"lm_head.weight": torch.ones(101, 12)}))
    with pytest.raises(FileError, match=r"'lm_head.weight' and .*wte.weight' .* yet they differ"):
        from_pretrained(tmp_path)


def test_a_file_cut_short_says_so(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(FileError, match=r"is cut short or damaged \([0-9,]+ bytes: .*again"):
        from_pretrained(folder)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:12")
    with pytest.raises(FileError, match="pointer of Git LFS"):
        from_pretrained(folder)


def test_a_pickle_that_would_run_code_is_not_run(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    torch.save({"x": pytest.raises}, folder / "pytorch_model.bin")
    with pytest.raises(FileError, match="holds more than tensors, which is not run"):
        from_pretrained(folder)
    torch.save([torch.ones(1)], folder / "pytorch_model.bin")
    with pytest.raises(FileError, match="should hold tensors by name, got list"):
        from_pretrained(folder)


def test_a_pickle_cut_short_says_so(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"x": torch.ones(999)}, folder / "pytorch_model.bin")
    whole = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(whole[:-999])
    with pytest.raises(FileError, match=r"pytorch_model.bin is cut short or damaged"):
        from_pretrained(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "no whole JSON file"), ("[]", "should hold a JSON object, got list")],
)
def test_a_broken_config_says_so(folder, text, message):
    (folder / "config.json").write_text(text)
    with pytest.raises(FileError, match=message):
        from_pretrained(folder)


def test_a_folder_without_its_files_says_what_it_lacks(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"has no config.json; expected the folder of a checkpoint"):
        from_pretrained(tmp_path / "empty")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileError, match=r"has no weights; expected model.safetensors"):
        from_pretrained(folder)


def test_a_class_that_we_have_not_is_refused(folder):
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"Transformer"', '"Transformr"'))
    with pytest.raises(UnknownNameError, match="no class of models 'Transformr'; did you mean"):
        from_pretrained(folder)


def test_a_setting_that_we_have_not_is_refused(folder):
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"d_model"', '"dmodel"'))
    with pytest.raises(UnknownNameError, match="no setting of TransformerConfig 'dmodel'"):
        from_pretrained(folder)


def test_another_class_of_models_is_found_by_its_name(tmp_path):
    @register
    class Other(Pretrained):
        config_class = type(WRITERS["gpt2"])

        def __init__(self, config):
            super().__init__()
            self.config, self.linear = config, torch.nn.Linear(3, 5)

    Other(WRITERS["gpt2"]).save_pretrained(tmp_path)
    assert type(from_pretrained(tmp_path)) is Other
    with pytest.raises(InputError, match="holds a Other, not a Transformer"):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.usefixtures("unchecked")
def test_weights_are_floating_point(folder):
    with pytest.raises(InputError, match=r"floating-point dtype, got torch.int8"):
        from_pretrained(folder, dtype=torch.int8)


def test_a_full_disk_that_safetensors_reports_is_a_sentence(folder, monkeypatch):
    def full_disk(*_, **__):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("regard.models.checkpoints.pretrained.save_file", full_disk)
    with pytest.raises(
        FileError, match=r"cannot write the checkpoint to .*No space left.*make room"
    ):
        small("gpt2").save_pretrained(folder)


def test_a_folder_that_a_killed_process_set_aside_is_found(folder):
    folder.rename(replacement._set_aside_path(folder))
    assert from_pretrained(folder).config == small("vaswani").config


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(folder, monkeypatch):
    read, calls = pretrained._load_own, []

    def replace_before_weights(folder, config, dtype, base):
        calls.append(config)
        if len(calls) == 1:
            small("gpt2").save_pretrained(folder)
        return read(folder, config, dtype, base)

    monkeypatch.setattr(pretrained, "_load_own", replace_before_weights)
    assert from_pretrained(folder).config == small("gpt2").config
    assert len(calls) == 2
