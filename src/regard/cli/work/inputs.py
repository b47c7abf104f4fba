"""The texts that a command is given: as arguments, in a file, or on stdin."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from regard.errors import FileError, InputError

STDIN = "-"


def text_of(given: str | None, file: Path | None = None) -> str:
    """One text: the argument, else the whole file, else stdin; - is stdin in both places."""
    if given is not None and file is not None:
        raise click.UsageError("give a text or --file, not both")
    if given is not None and given != STDIN:
        return _checked(given)
    return _whole(*_read(file, asked=given == STDIN)).rstrip("\n")


def texts_of(given: Sequence[str], file: Path | None) -> list[str]:
    """Several texts: the arguments, else the lines of the file, else those of stdin."""
    if given and file is not None:
        raise click.UsageError("give texts or --file, not both")
    if given and tuple(given) != (STDIN,):
        return [_checked(text) for text in given]
    text, name = _read(file, asked=bool(given))
    # only what ends a line in a file does: other scripts have marks of their own
    return _whole(text, name).removesuffix("\n").split("\n")


def _read(file: Path | None, *, asked: bool) -> tuple[str, str]:
    """What the file or stdin holds, and what a message calls it."""
    if file is None and not asked and sys.stdin.isatty():
        raise click.UsageError("no text; give some, or --file FILE, or - and lines on stdin")
    name = "stdin" if file in (None, Path(STDIN)) else str(file)
    contents = sys.stdin.buffer.read() if name == "stdin" else _contents(name)
    try:
        return contents.decode("utf-8-sig").replace("\r\n", "\n"), name
    except UnicodeDecodeError as error:
        raise FileError(f"{name} is not UTF-8 text; save it as UTF-8") from error


def _contents(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {name}: {error.strerror}") from error


def _whole(text: str, name: str) -> str:
    if not text.strip():
        raise InputError(f'{name} has no text; give some, such as "I love you"')
    return text


def _checked(text: str) -> str:
    if not text.strip():
        raise InputError('a text is empty; give some, such as "I love you"')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("a text is not UTF-8; set the terminal to UTF-8") from None
    return text
