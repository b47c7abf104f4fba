from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import FileError, InputError, NotFiniteError, RegardError
from regard.models.word_vectors import random_word_vectors, read_word_vectors

PLAIN = "我 1 2 3\n爱 -4.5 5e-1 6\n中国 7 8 9\n"


@pytest.fixture
def write(tmp_path):
    def file(content):
        path = tmp_path / "vectors.txt"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return file


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        f"3 3\n{PLAIN}",
        f"\ufeff{PLAIN}",
        PLAIN.replace("\n", " \r\n"),
        PLAIN.replace(" ", "\t"),
        f"{PLAIN}爱 0 0 0\n\n",
        PLAIN.rstrip(),
    ],
)
def test_the_vectors_of_the_words_are_read_in_every_dialect(write, content):
    vectors = read_word_vectors(write(content), ["爱", "中国", "爱"])
    assert vectors == {"爱": [-4.5, 0.5, 6.0], "中国": [7.0, 8.0, 9.0]}


def test_a_word_may_be_a_space_of_another_script(write):
    assert read_word_vectors(write("\u3000 1 2\n"), ["\u3000"]) == {"\u3000": [1.0, 2.0]}


def test_reading_ends_where_the_last_word_was_met(write):
    assert read_word_vectors(write(f"{PLAIN}broken\n"), ["我"]) == {"我": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (PLAIN + "国\n", FileError, "line 4: expected a word and its numbers, got '国'"),
        (PLAIN + "国 1 2\n", FileError, "line 4: expected 3 numbers as above, got 2 for '国'"),
        ("3 4\n" + PLAIN, FileError, "line 2: expected 4 numbers as above, got 3 for '我'"),
        (PLAIN + "恨 1 x 2\n", FileError, "line 4: 'x' is not a number"),
        (PLAIN + "恨 1 nan 2\n", NotFiniteError, "line 4: 'nan' is not a finite number"),
        (PLAIN + "恨 1 1e999 2\n", NotFiniteError, "line 4: '1e999' is not a finite number"),
        (PLAIN.encode() + b"\xff 1 2 3\n", FileError, "line 4: not UTF-8 text"),
        (PLAIN + "x" * (1 << 20), FileError, "line 4: too long for a word and its numbers"),
        (PLAIN, InputError, "has no vector for '恨', '水'; leave out such words or add a line"),
        ("", InputError, "has no vector for '恨', '水'"),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_file_and_line(write, content, error, message):
    path = write(content)
    with pytest.raises(error) as caught:
        read_word_vectors(path, ["恨", "我", "水"] if content else ["恨", "水"])
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileError, match=r"cannot read the vectors .*gone.txt: No such file"):
        read_word_vectors(tmp_path / "gone.txt", ["a"])
    with pytest.raises(FileError, match="Is a directory"):
        read_word_vectors(tmp_path, ["a"])


def test_a_long_word_is_cut_in_the_message(write):
    with pytest.raises(FileError, match=f"got '{'x' * 39}…'"):
        read_word_vectors(write("x" * 500), ["a"])


@given(st.binary(max_size=200))
def test_any_bytes_give_vectors_or_our_own_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    with suppress(RegardError):
        assert set(read_word_vectors(path, ["a"])) == {"a"}


def test_random_vectors_are_those_of_the_seed_and_equal_words_share_one():
    expected = torch.randn(2, 5, generator=torch.Generator().manual_seed(7)).tolist()
    assert random_word_vectors(["b", "a", "b"], 5, 7) == {"b": expected[0], "a": expected[1]}
