"""What leaves a command: text that any stream can carry, JSON, and files written whole."""

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import click

from regard.files import atomic_file


def prepare_streams() -> None:
    """Let stdout and stderr carry every character, whatever the system's encoding.

    Into a pipe or a file goes UTF-8, unless PYTHONIOENCODING says otherwise; a terminal without
    our characters shows question marks instead of ending the program.
    """
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, TextIOWrapper):
            continue
        foreign = not (stream.encoding or "").lower().startswith("utf")
        if foreign and not stream.isatty() and not os.environ.get("PYTHONIOENCODING"):
            stream.reconfigure(encoding="utf-8")
        stream.reconfigure(errors="replace")


def prepared_arguments(given: Sequence[str] | None) -> list[str]:
    """The arguments as the text that their bytes are, where the system took them for another."""
    return [_recoded(each) for each in (sys.argv[1:] if given is None else given)]


def _recoded(text: str) -> str:
    if not any("\udc80" <= each <= "\udcff" for each in text):  # bytes that were no characters
        return text
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def prepare_warnings() -> None:
    """Say our own warnings in one line, and those of other packages only to who asks by -W."""
    if not sys.warnoptions:
        warnings.showwarning = _note


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    if str(message).startswith("regard"):
        click.echo(f"regard: note: {message}", err=True)


def as_text(value: Any, indent: int | None = None) -> str:
    """The value as JSON, with escapes where stdout lacks one of its characters."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


@contextmanager
def lines_to(out: Path | None) -> Iterator[TextIO | None]:
    """Where lines go: a file that is there whole at the end or not at all; None is stdout."""
    if out is None:
        yield None
        return
    with (
        atomic_file(out) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


def write_lines(lines: Iterable[str], out: Path | None) -> None:
    """Print lines, or write them to a file and print its name."""
    with lines_to(out) as file:
        for line in lines:
            click.echo(line, file=file)
    if out is not None:
        click.echo(str(out))
