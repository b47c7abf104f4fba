"""The corpus of the story teller is drawn from a teacher, part by part, each time the same."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from regard.models import Tokenizer, Transformer, TransformerConfig

SCRIPT = Path(__file__).parents[2] / "recipes" / "stories" / "sample.py"


@pytest.fixture
def sample(monkeypatch):
    spec = importlib.util.spec_from_file_location("sample", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STORIES", 6)
    monkeypatch.setattr(module, "ROWS", 3)
    monkeypatch.setitem(module.SETTINGS, "max_new_tokens", 29)
    return module


@pytest.fixture
def teacher(tmp_path):
    torch.manual_seed(5)
    tokenizer = Tokenizer.train(["Once upon a time.\n"] * 5, "byte-bpe", 270)
    sizes = {"d_model": 16, "layers": 1, "heads": 2, "d_ff": 16, "max_positions": 64}
    config = TransformerConfig.preset("llama", vocab=len(tokenizer), tie_embeddings=True, **sizes)
    model = Transformer(config)
    model.tokenizer = tokenizer
    model.generation = model.generation.replace(eos_token_id=tokenizer.eos_token_id)
    model.save_pretrained(tmp_path / "teacher")
    return tmp_path / "teacher"


def drawn(sample, monkeypatch, teacher, folder, *more):
    arguments = ["sample.py", str(teacher), "--to", str(folder), "--parts", "3", *more]
    monkeypatch.setattr(sys, "argv", arguments)
    sample.main()
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}


def test_a_corpus_has_its_three_files(sample, monkeypatch, teacher, tmp_path):
    found = drawn(sample, monkeypatch, teacher, tmp_path / "corpus")
    assert found["dev.txt"] == found["part-0000.txt"]
    assert found["test.txt"] == found["part-0001.txt"]
    assert found["train.txt"] == found["part-0002.txt"]


def test_a_part_that_is_there_is_not_drawn_again(sample, monkeypatch, teacher, tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "part-0002.txt").write_text("A story.\n")
    assert drawn(sample, monkeypatch, teacher, folder)["train.txt"] == "A story.\n"


def test_the_same_seed_draws_the_same_stories(sample, monkeypatch, teacher, tmp_path):
    first = drawn(sample, monkeypatch, teacher, tmp_path / "first")
    assert drawn(sample, monkeypatch, teacher, tmp_path / "second") == first
    assert first["part-0000.txt"] != first["part-0001.txt"]


def test_a_story_that_does_not_end_is_left_out(sample, monkeypatch, teacher, tmp_path):
    monkeypatch.setitem(sample.SETTINGS, "max_new_tokens", 1)
    found = drawn(sample, monkeypatch, teacher, tmp_path / "corpus")
    assert not any(text.strip() for text in found.values())
