import pytest

from regard.errors import FileError
from regard.training.corpus_file import CorpusFile


@pytest.fixture
def written(tmp_path):
    def write(name, content, **settings):
        (tmp_path / name).write_text(content, encoding="utf-8")
        return list(CorpusFile(tmp_path / name, **settings))

    return write


def test_a_text_is_a_line(written):
    assert written("a.txt", "one\n\n two \n三\n") == ["one", "two", "三"]


def test_paragraphs_are_parted_by_empty_lines(written):
    assert written("a.txt", "one\ntwo\n\n三\n", paragraphs=True) == ["one\ntwo", "三"]


def test_of_columns_the_first_is_the_text(written):
    assert written("a.tsv", "good film\t1\n\t0\nbad\t0\n") == ["good film", "bad"]


def test_of_objects_the_text_is(written):
    lines = '{"text": "one", "label": 1}\n{"source": "two", "target": "二"}\n'
    assert written("a.jsonl", lines) == ["one", "two"]


@pytest.mark.parametrize("line", ["{", "[1]", '{"label": 1}', '{"text": 1}'])
def test_an_object_without_a_text_is_named_by_its_line(written, line):
    with pytest.raises(FileError, match=r'a.jsonl, line 2: expected an object with "text", got'):
        written("a.jsonl", f'{{"text": "one"}}\n{line}\n')


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.tsv", "tea\t茶"),
        ("a.jsonl", '{"source": "tea", "target": "茶"}'),
        ("a.txt", "tea ||| 茶"),
    ],
)
def test_pairs_are_read_by_what_the_name_ends_with(written, name, line):
    assert written(name, line + "\n", pairs=True) == [("tea", "茶")]


def test_a_limit_takes_the_first_ones(written):
    assert written("a.txt", "one\ntwo\nthree\n", limit=2) == ["one", "two"]


@pytest.mark.parametrize("pairs", [False, True])
def test_a_file_that_is_not_there_is_named(tmp_path, pairs):
    with pytest.raises(FileError, match=r"no corpus '.*gone.txt'"):
        list(CorpusFile(tmp_path / "gone.txt", pairs=pairs))


@pytest.mark.parametrize("line", ["[" * 99999, '{"text": 1' + "0" * 5000 + "}", "3", "null"])
def test_a_hostile_line_of_json_is_named(tmp_path, line):
    (tmp_path / "a.jsonl").write_text(line)
    with pytest.raises(FileError, match=r"a.jsonl, line 1: expected an object"):
        list(CorpusFile(tmp_path / "a.jsonl"))
