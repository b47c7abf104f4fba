import json

import pytest
import torch

from loading import checkpoints
from regard.storage import save_trace
from regard.types import Gap, Trace
from traces import a_trace


@pytest.fixture
def trace(tmp_path):
    save_trace(a_trace(), tmp_path / "t.trace")
    return str(tmp_path / "t.trace")


def test_of_a_trace_streams_maps_and_gaps_are_told(run, trace):
    result = run("info", trace, width=120)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Stream target  12 tokens: <s> 我 爱 中国" in result.stdout
    assert "1 x cross, 6 heads, 11 x 13 tokens, every weight is stored: h.1" in result.stdout
    assert "h.3: it only adds" in result.stdout


def test_maps_of_one_kind_are_one_line(run, tmp_path):
    whole = Trace.from_weights(torch.eye(5).expand(3, 2, 5, 5), list("abcde"))
    save_trace(Trace(whole.streams, whole.maps, (Gap("x", "y"),)), tmp_path / "t")
    assert "3 x encoder, 2 heads" in run("info", str(tmp_path / "t"), width=120).stdout
    assert "layer 0 … layer 2" in run("info", str(tmp_path / "t"), width=120).stdout


def test_tokens_cannot_steer_the_terminal(run, trace):
    assert "\x1b" not in run("info", trace).stdout


def test_json_of_a_trace_holds_every_token_and_no_weights(run, trace):
    found = json.loads(run("info", trace, "--json").stdout)
    assert [each["keeps"] for each in found["maps"]] == ["recomputable", "dense", "summary"]
    assert len(found["streams"]["source"]) == 13
    assert (found["shown"], found["file"]) == (None, trace)


def test_a_trace_is_told_in_chinese_too(run, trace):
    assert "保存全部权重" in run("info", trace, "--lang", "zh").stdout


@pytest.mark.parametrize("inner", ["", "config.json", "model.safetensors"])
def test_a_folder_or_a_file_in_it_is_the_model(run, tmp_path, inner):
    checkpoints.a_teller(tmp_path / "m")
    found = json.loads(run("info", str(tmp_path / "m" / inner), "--json").stdout)
    assert (found["architecture"], found["layers"], found["heads"]) == ("Transformer", [2], 3)
    assert (found["context"], found["tokenizer"]) == (37, "tokenizer.json")


def test_a_shipped_name_is_a_model_too(run):
    assert "BLEU 32.7" in run("info", "en-zh-transformer").stdout


def test_a_cached_name_is_a_model_too(run, tmp_path, monkeypatch):
    checkpoints.a_teller(tmp_path / "m")
    monkeypatch.setattr(
        "regard.loading.local_models.cached_models", lambda: {"a/b": tmp_path / "m"}
    )
    assert json.loads(run("info", "a/b", "--json").stdout)["name"] == "a/b"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "no file, folder or model 'gone' here; the models are answers-en, answers-zh"),
        ("en-zh-transfomer", "did you mean 'en-zh-transformer'? The models are answers-en"),
        ("I love you", "'I love you' is a text and no model; for example: regard info love.trace"),
        ("text.txt", "is no trace"),
        ("empty", "has no config.json"),
    ],
)
def test_what_is_neither_is_one_sentence(run, tmp_path, monkeypatch, name, said):
    (tmp_path / "text.txt").write_text("I love you")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    result = run("info", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
