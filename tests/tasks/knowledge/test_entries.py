"""The kind of a base is recognised, and a file that is none is refused in one sentence."""

import gzip
import json

import pytest

from regard.errors import FileError
from regard.tasks.knowledge import entries
from regard.tasks.knowledge.entries import read_base


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.tsv", "a\tb\tc\nd\te\tf\n", "triples"),
        ("a.tsv.gz", "a\tb\tc\n", "triples"),
        ("a.tsv", "Why?\tSo.\n", "questions"),
        ("a.tsv", "So.\n", "answers"),
        ("a.jsonl", '{"subject": "a", "predicate": "b", "object": "c"}', "triples"),
        ("a.jsonl", '{"question": "Why?", "answer": "So."}', "questions"),
        ("a.jsonl", '{"id": 3, "text": "So."}', "answers"),
        ("a.md", "# So\n", "passages"),
    ],
)
def test_the_kind_of_a_base_is_recognised(tmp_path, name, text, kind):
    assert read_base(write(tmp_path, name, text)).kind == kind


def test_an_entry_knows_its_line(tmp_path):
    base = read_base(write(tmp_path, "a.tsv", "\ufeffa\tb\tc\n\nd\t\tf\ng\th\ti\n"))
    assert [(each.texts, each.source) for each in base.entries] == [
        (("a", "b", "c"), "a.tsv:1"),
        (("g", "h", "i"), "a.tsv:4"),
    ]


def test_the_texts_of_a_folder_become_passages_with_their_lines(tmp_path):
    write(tmp_path, "notes/a.md", "# One\n\n" + "word " * 120 + "\n\nLast.\n")
    write(tmp_path, "b.TXT", "Two.")
    write(tmp_path, ".hidden.txt", "Three.")
    base = read_base(tmp_path)
    assert [each.source for each in base.entries] == ["b.TXT:1", "notes/a.md:1", "notes/a.md:5"]
    assert base.entries[2].passage == "Last."


def test_a_long_line_of_a_text_is_cut_and_nothing_is_lost(tmp_path):
    text = "".join(map(str, range(2000)))
    base = read_base(write(tmp_path, "a.txt", text))
    assert "".join(each.passage for each in base.entries) == text
    assert len(base.entries) > 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "a\tb\tc\td\n", "a.tsv, line 1: expected three columns .* got 4"),
        ("a.tsv", "a\tb\tc\na\tb\n", "line 2: expected as many columns as above"),
        ("a.jsonl", "[3]\n", "line 1: expected an object"),
        ("a.jsonl", '{"a": 3}', "line 1: expected .* got the keys 'a'"),
        ("a.jsonl", '{"text": 3}', 'line 1: expected the texts "answer", as above'),
        ("a.tsv", b"\xff\xfe\n", "a.tsv is not UTF-8 text"),
        ("a.tsv", "\n\n", "has no entry"),
        ("a.docx", "x", "is of no kind that is known"),
        ("a.tsv.gz", "", "has no entry"),
    ],
)
def test_a_bad_base_is_refused(tmp_path, name, text, message):
    with pytest.raises(FileError, match=message):
        read_base(write(tmp_path, name, text))


def test_a_folder_without_texts_and_a_missing_file_are_refused(tmp_path):
    write(tmp_path, "a.png", "x")
    with pytest.raises(FileError, match="has no file that can be read"):
        read_base(tmp_path)
    with pytest.raises(FileError, match="no knowledge base"):
        read_base(tmp_path / "b.tsv")


def test_a_line_that_is_too_long_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(entries, "LONGEST_LINE", 29)
    path = write(tmp_path, "a.jsonl", json.dumps({"text": "So."}) + "\n" + "x" * 30)
    with pytest.raises(FileError, match=r"a\.jsonl, line 2: longer than 29 bytes"):
        read_base(path)


def test_a_broken_gzip_file_is_refused(tmp_path):
    path = write(tmp_path, "a.tsv.gz", "a\tb\tc\n" * 99)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileError, match="no whole gzip file"):
        read_base(path)
