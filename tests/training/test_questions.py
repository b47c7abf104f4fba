"""Questions are read with their texts and answers; a wrong line is named."""

import gzip
import json

import pytest

from regard.errors import FileError, InputError
from regard.training.questions import Answer, Question, QuestionFiles

ROW = {"question": "Who?", "context": "Ada wrote it.", "answers": [{"text": "Ada", "start": 0}]}


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_questions_have_their_answers_in_the_text(tmp_path, name):
    content = f"{json.dumps(ROW)}\n\n{json.dumps(ROW | {'answers': []})}\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    first, second = QuestionFiles((tmp_path / name,))
    assert first == Question("Who?", "Ada wrote it.", (Answer("Ada", 0),))
    assert second.answers == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": [{"text": "Ada", "start": 1}]}, "expected 'Ada' at character 1 of its conte"),
        ({"answers": [{"text": "Ada"}]}, "an answer expected start to be"),
        ({"answers": "Ada"}, "a question expected answers to be"),
        ({"context": " "}, "expected context to have text"),
        ({"question": 3}, "a question expected question to be"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, changes, message):
    (tmp_path / "a.jsonl").write_text(json.dumps(ROW | changes))
    with pytest.raises(FileError, match=f"a.jsonl, line 1: .*{message}"):
        list(QuestionFiles((tmp_path / "a.jsonl",)))


def test_no_file_is_refused():
    with pytest.raises(InputError, match="at least one file of questions"):
        QuestionFiles(())
