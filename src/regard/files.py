"""Write a file or a folder whole or not at all.

Both functions give a temporary path in the same folder as the target. The caller writes there; when
the block ends without an exception, the temporary path is renamed to the target. If the block
raises, whatever stood at the target before is untouched and the temporary path is removed::

    with atomic_file(Path("map.csv")) as temporary:
        temporary.write_text("query,key,weight")  # writes .regard-1f0c….part
    # only here does map.csv exist, or have its new content
"""

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import FileError

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
    # The random name lets several processes write the same path at once, and it is short even
    # where the name of the target is as long as a file system allows.
    temporary = target.with_name(f".regard-{secrets.token_hex(8)}.part")
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

    An existing folder is replaced. With `own_names` it stays, its files of the new names are
    replaced one by one, and those of `own_names` that were not written again are removed, so that a
    folder in which a user keeps other files can be written to. All files are on the disk before any
    gets its name. An OSError is passed on, because only the caller knows what was to be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.iterdir():
            _sync(file)
        if own_names is not None and path.exists():
            _merge_files(temporary, path, own_names)
        else:
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _merge_files(source: Path, target: Path, own_names: Sequence[str]) -> None:
    """Move all files of one folder into another; remove its own files that are not among them."""
    written = {file.name for file in source.iterdir()}
    for file in source.iterdir():
        file.replace(target / file.name)
    for stale in {*own_names} - written:
        (target / stale).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
