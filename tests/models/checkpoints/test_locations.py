import subprocess
import sys

import pytest
from huggingface_hub import errors

import regard
from models.transformer.cases import small
from regard.errors import FileError, InputError
from regard.models import from_pretrained
from regard.models.checkpoints import locations as places

OFFLINE = """
from regard.errors import FileError
from regard.models import from_pretrained
try:
    from_pretrained("no-such/model")
except FileError as error:
    print(error)
"""


def test_a_shipped_model_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "ZOO", tmp_path)
    small("gpt2").save_pretrained(tmp_path / "tiny")
    assert from_pretrained("tiny").config.vocab == 101


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(FileError, match=r"is a file; expected the folder that holds config.json"):
        from_pretrained(tmp_path / "model.safetensors")


def test_a_path_that_is_not_there_is_no_hub_name(tmp_path):
    with pytest.raises(
        FileError, match=r"no folder .*; expected a folder, a shipped name or a hub"
    ):
        from_pretrained(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("en-zh-transfomer", r"model 'en-zh-transfomer' \(shipped: .*; did you mean 'en-zh-trans"),
        ("I love you", "'I love you' is a text and no model; expected a folder, a shipped name"),
        ("我爱你", "'我爱你' is a text and no model"),
        ("word " * 999, "'word word word word word word word word…' is a text and no model"),
        ("love.trace", "there is no file love.trace; expected a folder"),
        ("./nowhere", "no folder ./nowhere; expected a folder"),
        ("~nobody-here/x", "no folder ~nobody-here/x; expected a folder"),
        ("a" * 5000 + "/b/c", "no folder aaaaa.*…; expected a folder"),
    ],
)
def test_what_cannot_be_a_hub_name_is_refused_without_the_hub(monkeypatch, name, message):
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    with pytest.raises(FileError, match=message):
        from_pretrained(name)


@pytest.mark.parametrize("name", ["", " "])
def test_what_names_nothing_is_refused(name):
    with pytest.raises(InputError, match="expected the name or the folder of a model, got "):
        from_pretrained(name)


@pytest.mark.parametrize("name", ["en-zh-transfomer", "I love you"])
def test_load_says_the_same_as_from_pretrained(name):
    with pytest.raises(FileError, match=r"did you mean|is a text and no model"):
        regard.load(name)


def test_a_folder_that_may_not_be_read_is_one_sentence(monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", refuse)
    with pytest.raises(FileError, match="cannot read /locked/m: Permission denied"):
        from_pretrained("/locked/m")


def test_a_hub_name_that_looks_like_a_shipped_one_gets_both_sentences(monkeypatch):
    def snapshot(*_, **__):
        raise ConnectionError("refused")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(FileError, match=r"cannot be reached .*; did you mean 'en-zh-rnn'\?$"):
        from_pretrained("someone/en-zh-rnm")


def test_without_the_hub_there_is_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr(places, "ZOO", tmp_path)
    (tmp_path / "en-zh").mkdir()
    (tmp_path / "en-zh" / "config.json").write_text("{}")
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    with pytest.raises(FileError, match=r"'some/model' \(shipped: en-zh\).*pip install hugg"):
        from_pretrained("some/model")


def test_offline_gives_a_sentence(tmp_path):
    settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": ""}
    run = [sys.executable, "-c", OFFLINE]
    ran = subprocess.run(run, capture_output=True, text=True, check=True, env=settings)
    assert "no folder and no shipped model 'no-such/model'" in ran.stdout
    assert "cannot be reached and nothing of it was downloaded before" in ran.stdout


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.HFValidationError("odd"), "the hub has none of that name"),
        (errors.LocalEntryNotFoundError("gone"), "the hub cannot be reached"),
        (ConnectionError("refused"), "the hub cannot be reached"),
    ],
)
def test_a_hub_that_does_not_answer_gives_a_sentence(monkeypatch, error, message):
    def snapshot(*_, **__):
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(FileError, match=f"no folder and no shipped model 'a/b'.*{message}"):
        from_pretrained("a/b")


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_a_hub_name_is_downloaded(tmp_path, monkeypatch, suffix):
    small("gpt2").save_pretrained(tmp_path)
    if suffix == "bin":
        (tmp_path / "model.safetensors").rename(tmp_path / "aside")
    asked = []

    def snapshot(name, allow_patterns):
        asked.append(allow_patterns)
        if "pytorch_model*.bin" in allow_patterns:
            (tmp_path / "aside").rename(tmp_path / "model.safetensors")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert from_pretrained("some/model").config.vocab == 101
    assert len(asked) == (1 if suffix == "safetensors" else 2)
