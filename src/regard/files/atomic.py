"""`atomic_file` and `atomic_folder`: blocks that write a file or a folder whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import FileError
from regard.files.replacement import finish_replacement, replace_folder, writes_inside
from regard.files.temporary import remove_leftovers, temporary_path

__all__ = ["atomic_file", "atomic_folder"]


@contextmanager
def atomic_file(path: Path, *, durable: bool = False, advice: str = "") -> Iterator[Path]:
    """Give a temporary path whose file replaces `path` when the block ends without an exception.

    A `durable` file is on the disk, not only in the system's cache, before it gets its name, so
    that it also survives a power cut. An OSError becomes a FileError that names `path` and the
    reason and ends with `advice`, for instance "; write to another place".
    """
    # A link stays a link, as with open(): the file that it points to is replaced.
    target = Path(os.path.realpath(path))
    remove_leftovers(target.parent)
    temporary = temporary_path(target.parent)
    try:
        yield temporary
        if durable:
            _sync(temporary)
        temporary.replace(target)
        if durable:
            with suppress(OSError):  # not every system can sync a folder
                _sync(target.parent)
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise FileError(f"cannot write {path}: {reason}{advice}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_folder(path: Path, *, own_names: Sequence[str] | None = None) -> Iterator[Path]:
    """Give a temporary folder that becomes `path` when the block ends without an exception.

    An existing folder is replaced in one step. With `own_names` its other files are kept, so that a
    folder in which a user keeps files can be written to; those of `own_names` that were not written
    again are removed. All files are on the disk before the folder gets its name. An OSError is
    passed on, because only the caller knows what was to be written.
    """
    # A link to a folder stays a link: the folder that it points to is replaced.
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    finish_replacement(target, own_names)
    temporary = _make_temporary_folder(target)
    try:
        yield temporary
        for file in temporary.iterdir():
            _sync(file)
        with suppress(OSError):  # not every system can sync a folder
            _sync(temporary)
        replace_folder(temporary, target, own_names)
        with suppress(OSError):
            _sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _make_temporary_folder(target: Path) -> Path:
    """A new folder beside the target, or inside it where it has to be replaced from inside."""
    for folder in (target.parent, target):
        remove_leftovers(folder)
    inside = temporary_path(target)
    if target.is_dir() and writes_inside(target):
        inside.mkdir()
        return inside
    temporary = temporary_path(target.parent)
    try:
        temporary.mkdir()
    except OSError as error:
        # The folder may belong to the user where its parent does not.
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS) or not target.is_dir():
            raise
        inside.mkdir()
        return inside
    return temporary


def _sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
