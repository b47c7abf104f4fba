import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from loading import checkpoints


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A hub's cache with one model in two versions, a data set, and one that is half there."""
    checkpoints.a_teller(tmp_path / "new")
    (tmp_path / "half").mkdir()

    def version(name, when):
        return SimpleNamespace(snapshot_path=tmp_path / name, last_modified=when)

    def repository(name, kind, *versions):
        return SimpleNamespace(repo_id=name, repo_type=kind, revisions=versions)

    repositories = [
        repository("someone/teller", "model", version("new", 2), version("half", 1)),
        repository("someone/half", "model", version("half", 1)),
        repository("someone/data", "dataset", version("new", 1)),
    ]
    found = SimpleNamespace(repos=repositories)
    monkeypatch.setattr("huggingface_hub.scan_cache_dir", lambda: found)


def test_what_ships_is_listed_with_its_size_and_score(run):
    result = run("models", width=100)
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = [each for each in result.stdout.splitlines() if "en-zh-transformer" in each]
    assert "5,707,008" in line
    assert "BLEU 32.7" in line


def test_what_is_cached_is_listed_too(run, cache):
    found = json.loads(run("models", "--json").stdout)
    assert [each["name"] for each in found["cached"]] == ["someone/teller"]
    assert {each["name"] for each in found["shipped"]} >= {"en-zh-rnn", "en-zh-transformer"}


def test_without_a_cache_there_is_none(run, monkeypatch):
    import huggingface_hub

    def missing():
        raise huggingface_hub.CacheNotFound("no cache", cache_dir="nowhere")

    monkeypatch.setattr("huggingface_hub.scan_cache_dir", missing)
    assert "In the cache of Hugging Face\n  none" in run("models").stdout


def test_without_the_hub_nothing_is_cached(run, monkeypatch):
    monkeypatch.setattr("regard.loading.local_models.find_spec", lambda name: None)
    assert json.loads(run("models", "--json").stdout)["cached"] == []


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_folders_is_listed_with_who_loads_them(run, tmp_path):
    checkpoints.a_teller(tmp_path / "ours")
    checkpoints.foreign("both", tmp_path / "theirs")
    (tmp_path / "empty").mkdir()
    found = json.loads(run("models", str(tmp_path), "--json").stdout)
    assert {each["name"]: each["loads"] for each in found} == {
        "ours": "regard",
        "theirs": "transformers",
    }


def test_a_folder_with_a_model_is_told_in_full_in_both_languages(run, tmp_path):
    checkpoints.a_teller(tmp_path / "ours")
    assert "continues texts" in run("models", str(tmp_path / "ours")).stdout
    assert "续写文本" in run("models", str(tmp_path / "ours"), "--lang", "zh").stdout


@pytest.mark.parametrize(
    ("name", "said"), [("empty", "holds no model"), ("gone", "No such file"), ("file", "Not a")]
)
def test_a_folder_without_a_model_is_one_sentence(run, tmp_path, name, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    result = run("models", str(tmp_path / name))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_listing_needs_no_transformers(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    assert run("models").exit_code == 0
