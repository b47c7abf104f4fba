import io
import json
import sys
import warnings

import pytest

from regard.cli.output import (
    decode_arguments,
    open_output,
    prepare_streams,
    prepare_warnings,
    to_json_text,
    write_lines,
)
from regard.errors import FileError


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def stream(encoding, kind=io.TextIOWrapper):
    return kind(io.BytesIO(), encoding=encoding)


@pytest.fixture(autouse=True)
def _system(monkeypatch):
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)


@pytest.mark.parametrize(
    ("kind", "variable", "encoding"),
    [
        (io.TextIOWrapper, None, "utf-8"),
        (io.TextIOWrapper, "cp1252", "cp1252"),
        (Terminal, None, "cp1252"),
    ],
)
def test_pipes_get_utf_8_unless_it_was_said_otherwise(monkeypatch, kind, variable, encoding):
    if variable:
        monkeypatch.setenv("PYTHONIOENCODING", variable)
    monkeypatch.setattr(sys, "stdout", stream("cp1252", kind))
    prepare_streams()
    assert (sys.stdout.encoding, sys.stdout.errors) == (encoding, "replace")


def test_half_a_character_in_a_token_does_not_end_the_program(monkeypatch):
    monkeypatch.setattr(sys, "stdout", stream("utf-8"))
    prepare_streams()
    print("\ud83d", flush=True)  # noqa: T201
    assert sys.stdout.buffer.getvalue() == b"?\n"
    assert json.loads(to_json_text("\ud83d")) == "\ud83d"


@pytest.mark.parametrize(("encoding", "text"), [("utf-8", '"爱"'), ("cp1252", '"\\u7231"')])
def test_json_escapes_what_the_stream_cannot_carry(monkeypatch, encoding, text):
    monkeypatch.setattr(sys, "stdout", stream(encoding))
    assert to_json_text("爱") == text
    assert json.loads(text) == "爱"


def test_arguments_are_read_as_utf_8_where_the_system_could_not():
    broken = "爱".encode().decode("ascii", "surrogateescape")
    assert decode_arguments(["look", broken]) == ["look", "爱"]


def test_without_arguments_those_of_the_process_are_taken(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["regard", "look", "爱"])
    assert decode_arguments(None) == ["look", "爱"]


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    def lines():
        yield "one"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(lines(), tmp_path / "out.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"cannot write .*Not a directory"):
        write_lines(["one"], tmp_path / "file" / "out.txt")


def test_an_error_of_reading_is_not_taken_for_one_of_writing(tmp_path):
    with pytest.raises(FileError, match="gone"), open_output(tmp_path / "out.txt"):
        raise FileError("gone")


@pytest.mark.parametrize(
    ("message", "said"), [("regard is slow", "note: regard is slow"), ("x", "")]
)
def test_warnings_of_ours_are_notes_and_those_of_others_are_kept(
    monkeypatch, capsys, message, said
):
    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    prepare_warnings()
    warnings.showwarning(UserWarning(message), UserWarning, "file.py", 1)
    assert capsys.readouterr().err.strip() == (f"regard: {said}" if said else "")


def test_who_asks_for_warnings_gets_them_all(monkeypatch):
    monkeypatch.setattr(sys, "warnoptions", ["default"])
    before = warnings.showwarning
    prepare_warnings()
    assert warnings.showwarning is before
