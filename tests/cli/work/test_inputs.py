import io
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from regard.cli.work.inputs import text_of, texts_of
from regard.errors import FileError, InputError


@pytest.fixture
def stdin(monkeypatch):
    def holds(contents: bytes, *, terminal: bool = False) -> None:
        buffer = io.BytesIO(contents)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer, isatty=lambda: terminal))

    return holds


def test_a_text_is_the_argument():
    assert text_of("I love you") == "I love you"


@pytest.mark.parametrize("given", [None, "-"])
def test_without_an_argument_a_text_is_all_of_stdin(stdin, given):
    stdin("\ufeffone\r\ntwo\n".encode())
    assert text_of(given) == "one\ntwo"


def test_a_text_is_the_whole_file(tmp_path):
    (tmp_path / "book").write_text("one\n\ntwo")
    assert text_of(None, tmp_path / "book") == "one\n\ntwo"


def test_a_terminal_is_not_waited_for(stdin):
    stdin(b"", terminal=True)
    with pytest.raises(click.UsageError, match="no text; give some, or --file FILE, or -"):
        text_of(None)


def test_a_terminal_is_read_when_it_is_asked_for(stdin):
    stdin(b"typed", terminal=True)
    assert text_of("-") == "typed"


@pytest.mark.parametrize("given", [(), ("-",)])
def test_texts_are_the_lines_of_stdin(stdin, given):
    stdin(b"one\n\ntwo\n")
    assert texts_of(given, None) == ["one", "", "two"]


def test_texts_are_the_lines_of_a_file_that_may_be_stdin(stdin, tmp_path):
    stdin(b"one\n")
    (tmp_path / "f").write_text("two\nthree")
    assert texts_of((), Path("-")) == ["one"]
    assert texts_of((), tmp_path / "f") == ["two", "three"]


def test_what_is_not_utf_8_is_refused(stdin):
    stdin(b"\xff")
    with pytest.raises(FileError, match="stdin is not UTF-8 text"):
        text_of("-")
    with pytest.raises(InputError, match="a text is not UTF-8"):
        text_of("\udcff")


@pytest.mark.parametrize("read", [text_of, lambda *_: texts_of((), None)])
def test_stdin_without_text_is_refused(stdin, read):
    stdin(b" \n\n")
    with pytest.raises(InputError, match="stdin has no text"):
        read(None)


def test_a_text_and_a_file_are_too_many(tmp_path):
    with pytest.raises(click.UsageError, match="not both"):
        text_of("a", tmp_path)
    with pytest.raises(click.UsageError, match="not both"):
        texts_of(("a",), tmp_path)


def test_a_folder_is_no_text(tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*: Is a directory"):
        text_of(None, tmp_path)
