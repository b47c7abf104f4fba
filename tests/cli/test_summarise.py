import json

import pytest

from regard.types import Candidate, TaskResult

TEXTS = ["We present a parser.", "It is fast."]


@pytest.fixture
def summarised(monkeypatch):
    """A model that writes the text in capitals, and records how it was asked."""
    asked = []

    def summarise(texts, loaded, **settings):
        asked.append(settings)
        return [
            TaskResult("summarisation", "m", {"text": t}, (Candidate(t.upper(), -0.5),), copied=0.5)
            for t in texts
        ]

    monkeypatch.setattr("regard.tasks.models.task_model", lambda *_, **__: None)
    monkeypatch.setattr("regard.tasks.summarise", summarise)
    return asked


def test_each_line_has_a_line_and_an_empty_one_stays_empty(run, summarised, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{TEXTS[0]}\n\n{TEXTS[1]}\n")
    lines = run("summarise", "--file", str(tmp_path / "texts.txt")).output.splitlines()
    assert lines == [TEXTS[0].upper(), "", TEXTS[1].upper()]
    assert summarised == [{"trace": False}]


def test_json_has_an_object_for_each_text(run, summarised, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    lines = run("summarise", "--file", str(file), "--json", "--beam", "3").output.splitlines()
    assert [json.loads(line)["summary"] for line in lines] == [*map(str.upper, TEXTS)]
    assert json.loads(lines[0])["copied"] == 0.5
    assert summarised == [{"trace": False, "num_beams": 3}]


def test_the_default_model_reads_english_only_and_says_so(run, monkeypatch):
    monkeypatch.setattr("regard.tasks.models.shipped_models", lambda: ("summaries-en",))
    result = run("summarise", "我们提出一个新的句法分析器。")
    assert result.exit_code == 2
    assert "the shipped models for summarise read English" in result.stderr
    assert "--model" in result.stderr


def test_another_model_may_read_any_language(run, summarised):
    other = run("summarise", "我们提出。", "--json", "--model", "stories")
    assert other.exit_code == 0
