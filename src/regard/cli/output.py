"""What goes in and out of the process: arguments, text that any stream can carry, JSON, files."""

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from regard.files import atomic_file
from regard.terminal import print_line, print_text
from regard.unicode import escape_controls

INTERRUPTED = 130  # the exit code after Ctrl-C


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


def decode_arguments(arguments: Sequence[str] | None) -> list[str]:
    """The arguments (None: those of the process) read as UTF-8, whatever the system's encoding."""
    return [_decode(text) for text in (sys.argv[1:] if arguments is None else arguments)]


def _decode(text: str) -> str:
    """One argument read as UTF-8; bytes that are not UTF-8 stay surrogates."""
    # Python keeps bytes that the system's encoding does not have as these surrogates
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def prepare_warnings() -> None:
    """Print regard's own warnings as one line, and hide those of other packages.

    With Python's option -W, warnings are shown as it says.
    """
    if not sys.warnoptions:
        warnings.showwarning = _print_note


def _print_note(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning of regard to stderr as one line; those of other packages are hidden."""
    if str(message).startswith("regard"):
        print_line(f"regard: note: {message}", err=True)


def to_json_text(value: Any, indent: int | None = None) -> str:
    """The value as JSON; control characters and those that stdout cannot print are escaped."""
    text = escape_controls(json.dumps(value, ensure_ascii=False, indent=indent))
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def print_json(value: Any, indent: int | None = None) -> None:
    """Print the value as JSON."""
    print_text(to_json_text(value, indent))


@contextmanager
def open_output(out: Path | None) -> Iterator[TextIO | None]:
    """The file to write lines to, which appears whole at the end; None is stdout."""
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
    with open_output(out) as file:
        for line in lines:
            if file is None:
                print_text(line)
            else:
                file.write(f"{line}\n")
    if out is not None:
        print_line(str(out))
