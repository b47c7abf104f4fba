"""Labelled texts are read from columns and objects, gzipped or not; a wrong line is named."""

import gzip
import json

import pytest

from regard.errors import FileError, InputError
from regard.training.labelled_texts import LabelledFiles, LabelledText, label_index, labels_of

ROWS = [LabelledText("I love it", "good"), LabelledText("无聊", "bad")]


def written(path, rows=ROWS):
    if ".jsonl" in path.name:
        lines = [json.dumps(row._asdict()) for row in rows]
    else:
        lines = [f"{row.text}\t{row.label}\tmore" for row in rows]
    content = ("\n\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.tsv.gz", "a.jsonl.gz"])
def test_every_format_gives_the_same_rows_each_time(tmp_path, name):
    files = LabelledFiles((written(tmp_path / name),))
    assert list(files) == list(files) == ROWS
    assert labels_of(files) == ("bad", "good")


def test_a_label_of_an_object_may_be_a_number(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "I", "label": 1}\n')
    assert list(LabelledFiles((tmp_path / "a.jsonl",))) == [LabelledText("I", "1")]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.tsv", "no label", "line 1: expected a text and a label with a tab between"),
        ("a.tsv", "\tgood", "line 1: expected a text and a label"),
        ("a.jsonl", '{"text": "I"}', 'line 1: expected an object with "text" and "label"'),
        ("a.jsonl", '{"text": "I", "label": true}', "line 1: expected an object"),
        ("a.jsonl", "[", "line 1: expected an object"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, name, line, message):
    (tmp_path / name).write_text(f"{line}\n")
    with pytest.raises(FileError, match=message):
        list(LabelledFiles((tmp_path / name,)))


def test_a_damaged_gzip_file_is_refused(tmp_path):
    (tmp_path / "a.tsv.gz").write_bytes(b"\x1f\x8b no gzip")
    with pytest.raises(FileError, match=r"a.tsv.gz is no whole gzip file"):
        list(LabelledFiles((tmp_path / "a.tsv.gz",)))


def test_a_missing_file_and_no_file_are_refused(tmp_path):
    with pytest.raises(FileError, match="no corpus"):
        LabelledFiles((tmp_path / "a.tsv",))
    with pytest.raises(InputError, match="at least one file of labelled texts"):
        LabelledFiles(())


def test_a_label_is_a_name_or_a_number():
    assert [label_index(label, ["bad", "good"]) for label in ("good", "0")] == [1, 0]
    with pytest.raises(InputError, match="no label '2'"):
        label_index("2", ["bad", "good"])
