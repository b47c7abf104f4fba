import gzip
import json

import pytest

from regard.errors import FileError, InputError
from regard.training.match_metrics import match_metrics
from regard.training.matches import Match, MatchFiles


def test_columns_and_objects_give_the_same_matches(tmp_path):
    (tmp_path / "a.tsv").write_text("how tall\theight\tage\twork\n\n")
    row = {"question": "how tall", "right": "height", "wrong": ["age", "work"]}
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(json.dumps(row))
    expected = [Match("how tall", ("height",), ("age", "work"))]
    assert list(MatchFiles((tmp_path / "a.tsv",))) == expected
    assert list(MatchFiles((tmp_path / "a.jsonl.gz",))) == expected


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.tsv", "how tall", "line 1: expected a question and an entry"),
        ("a.jsonl", "[]", "line 1: .*expected"),
        ("a.jsonl", '{"question": "q", "right": []}', "line 1: expected texts in"),
        ("a.jsonl", '{"question": "q", "right": 3}', "line 1: .*right"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, name, line, message):
    (tmp_path / name).write_text(line)
    with pytest.raises(FileError, match=message):
        list(MatchFiles((tmp_path / name,)))


def test_no_file_is_no_corpus():
    with pytest.raises(InputError, match="at least one file"):
        MatchFiles(())


def test_a_tie_is_no_first_place():
    metrics = match_metrics([[0.5, 0.5], [0.9, 0.1]], [[True, False], [True, False]])
    assert metrics.first == 0.5
    assert metrics.mrr == 0.75


def test_metrics_need_questions():
    with pytest.raises(InputError, match="at least one question"):
        match_metrics([], [])
