import io
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from regard.cli.inputs import read_text, read_texts
from regard.errors import FileError, InputError


@pytest.fixture
def stdin(monkeypatch):
    def holds(contents: bytes, *, terminal: bool = False) -> None:
        buffer = io.BytesIO(contents)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer, isatty=lambda: terminal))

    return holds


def test_a_text_is_the_argument():
    assert read_text("I love you") == "I love you"


@pytest.mark.parametrize("given", [None, "-"])
def test_without_an_argument_a_text_is_all_of_stdin(stdin, given):
    stdin("\ufeffone\r\ntwo\n".encode())
    assert read_text(given) == "one\ntwo"


def test_a_text_is_the_whole_file(tmp_path):
    (tmp_path / "book").write_text("one\n\ntwo")
    assert read_text(None, tmp_path / "book") == "one\n\ntwo"


def test_a_terminal_is_not_waited_for(stdin):
    stdin(b"", terminal=True)
    with pytest.raises(click.UsageError, match="no text; give some, or --file FILE, or -"):
        read_text(None)


def test_a_terminal_is_read_when_it_is_asked_for(stdin):
    stdin(b"typed", terminal=True)
    assert read_text("-") == "typed"


@pytest.mark.parametrize("given", [(), ("-",)])
def test_texts_are_the_lines_of_stdin(stdin, given):
    stdin(b"one\n\ntwo\n")
    assert read_texts(given, None) == ["one", "", "two"]


def test_texts_are_the_lines_of_a_file_that_may_be_stdin(stdin, tmp_path):
    stdin(b"one\n")
    (tmp_path / "f").write_text("two\nthree")
    assert read_texts((), Path("-")) == ["one"]
    assert read_texts((), tmp_path / "f") == ["two", "three"]


def test_what_is_not_utf_8_is_refused(stdin):
    stdin(b"\xff")
    with pytest.raises(FileError, match="stdin is not UTF-8 text"):
        read_text("-")
    with pytest.raises(InputError, match="a text is not UTF-8"):
        read_text("\udcff")


@pytest.mark.parametrize("read", [read_text, lambda *_: read_texts((), None)])
def test_stdin_without_text_is_refused(stdin, read):
    stdin(b" \n\n")
    with pytest.raises(InputError, match="stdin has no text"):
        read(None)


def test_a_text_and_a_file_are_too_many(tmp_path):
    with pytest.raises(click.UsageError, match="not both"):
        read_text("a", tmp_path)
    with pytest.raises(click.UsageError, match="not both"):
        read_texts(("a",), tmp_path)


def test_a_folder_is_no_text(tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*: Is a directory"):
        read_text(None, tmp_path)


def test_a_process_without_stdin_gets_a_sentence(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(click.UsageError, match="no text; give some, or --file FILE, or -"):
        read_texts((), None)
    with pytest.raises(FileError, match="stdin is closed; give a text, or --file FILE"):
        read_text("-")
