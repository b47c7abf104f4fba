"""A checkpoint to disk, whole or not at all: written aside, then renamed."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import FileError

__all__ = ["NAMES", "write_folder"]

NAMES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "target_tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder aside, and put its files in place when all are whole.

    On any failure what was there before is as it was; files of other names stay.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; expected a folder to write the checkpoint to")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _aside(folder) as beside:
            write(beside)
            _in_place(beside, folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write the checkpoint to {folder}: {error}") from error


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    beside = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    beside.mkdir()
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _in_place(beside: Path, folder: Path) -> None:
    for file in beside.iterdir():
        _settle(file)
    if not folder.exists():
        os.replace(beside, folder)  # noqa: PTH105  renames a folder as one
        return
    written = {file.name for file in beside.iterdir()}
    for file in beside.iterdir():
        file.replace(folder / file.name)
    for stale in {*NAMES} - written:
        (folder / stale).unlink(missing_ok=True)


def _settle(file: Path) -> None:
    """Wait until the file is on the disk: its name must not be there before it."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
